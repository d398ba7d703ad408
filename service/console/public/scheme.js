// Before the first paint, so that a dark page does not flash white.
const chosen = localStorage.getItem("mantine-color-scheme-value");
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.setAttribute(
  "data-mantine-color-scheme",
  chosen === "dark" || (chosen !== "light" && dark) ? "dark" : "light",
);
