{
  // The scheme is set before the first paint, so that a dark page does not flash white.
  const chosen = localStorage.getItem("mantine-color-scheme-value");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.setAttribute(
    "data-mantine-color-scheme",
    chosen === "dark" || (chosen !== "light" && dark) ? "dark" : "light",
  );

  // These requests run while the code is loading; src/first.ts takes them over.
  const session = fetch("/api/v1/session");
  session.catch(() => undefined);
  window.first = { session };
  if (location.pathname === "/console/" && !document.hidden) {
    const views = ["audit", "gateways", "traffic", "tunnels"];
    const source = new EventSource(`/api/v1/events?${views.map((view) => `view=${view}`).join("&")}`);
    const heard = [];
    const hear = (event) => heard.push(event);
    for (const view of views) source.addEventListener(view, hear);
    window.first.stream = { source, views, heard, hear };
  }
}
