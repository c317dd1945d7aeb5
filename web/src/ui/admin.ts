import { createContext } from "preact";
import { useContext } from "preact/hooks";

/** AdminContext tells whether the calls that need the role admin are offered. */
export const AdminContext = createContext(false);

export function useAdmin(): boolean {
  return useContext(AdminContext);
}
