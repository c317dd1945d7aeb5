import { createContext } from "preact";
import { useContext } from "preact/hooks";

/** Notice says what was done, and may offer to undo it. */
export interface Notice {
  text: string;
  action?: { text: string; run: () => void };
}

export const NoticeContext = createContext<(n: Notice | undefined) => void>(() => undefined);

export function useNotice(): (n: Notice | undefined) => void {
  return useContext(NoticeContext);
}
