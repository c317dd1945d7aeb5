import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { mayOf, type May } from "../api/session";

/** MayContext says which calls the page offers. */
export const MayContext = createContext<May>(mayOf(undefined));

export function useMay(): May {
  return useContext(MayContext);
}
