// The theme is that of the system until the reader chooses one. It is set before the page
// is drawn, and the choice is kept in this browser.
(() => {
  const themes = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };
  const kept = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // Storage may be forbidden.
    }
  };
  let theme = kept() in themes ? kept() : "auto";
  const show = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  show();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    button.textContent = themes[theme];
    button.hidden = false;
    button.addEventListener("click", () => {
      const names = Object.keys(themes);
      theme = names[(names.indexOf(theme) + 1) % names.length];
      show();
      button.textContent = themes[theme];
      try {
        localStorage.setItem("theme", theme);
      } catch {
        // It holds for this page alone.
      }
    });
  });
})();
