// Light, dark, or the system's theme. Only this choice is stored beyond the session.
const KEY = "pintle-theme";
const ORDER = ["auto", "light", "dark"];

export const theme = () => localStorage.getItem(KEY) ?? "auto";

export function applyTheme() {
  document.documentElement.dataset.theme = theme();
}

export function nextTheme() {
  const next = ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length];
  localStorage.setItem(KEY, next);
  applyTheme();
  dispatchEvent(new Event("themechange"));
  return next;
}
