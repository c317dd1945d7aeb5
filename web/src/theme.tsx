import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";

/** Choice is the choice of the reader: a theme, or the theme of the system. */
export type Choice = "system" | "light" | "dark";
export type Theme = "light" | "dark";

const KEY = "hindsight.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** ThemeContext has the current theme. Canvases draw themselves again when it changes. */
export const ThemeContext = createContext<Theme>("light");

export function useTheme(): Theme {
  return useContext(ThemeContext);
}

function stored(): Choice {
  const v = localStorage.getItem(KEY);
  return v === "light" || v === "dark" ? v : "system";
}

/** useThemeChoice answers the choice, the theme that follows from it, and how to choose. */
export function useThemeChoice(): [Choice, Theme, (c: Choice) => void] {
  const [choice, setChoice] = useState<Choice>(stored);
  const [system, setSystem] = useState<Theme>(dark.matches ? "dark" : "light");
  useEffect(() => {
    const change = (): void => setSystem(dark.matches ? "dark" : "light");
    dark.addEventListener("change", change);
    return () => dark.removeEventListener("change", change);
  }, []);
  const theme = choice === "system" ? system : choice;
  // Before the next drawing, so that canvases read the new colours.
  document.documentElement.dataset["theme"] = theme;
  const choose = (c: Choice): void => {
    if (c === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, c);
    setChoice(c);
  };
  return [choice, theme, choose];
}
