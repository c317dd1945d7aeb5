import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";

/** Choice is what the reader chose: a theme, or that of the system. */
export type Choice = "system" | "light" | "dark";
export type Theme = "light" | "dark";

const KEY = "hindsight.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** ThemeContext has the theme that is shown; canvases draw themselves anew when it changes. */
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
  // At once, so that a canvas that is drawn in this pass reads the new colours.
  document.documentElement.dataset["theme"] = theme;
  const choose = (c: Choice): void => {
    if (c === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, c);
    setChoice(c);
  };
  return [choice, theme, choose];
}
