import { createContext } from "preact";
import { useContext } from "preact/hooks";

/** AdminContext says whether the page offers the calls that need the role admin. */
export const AdminContext = createContext(false);

export function useAdmin(): boolean {
  return useContext(AdminContext);
}
