{
  // The scheme is set before the first paint, so that a dark page does not flash white.
  const chosen = localStorage.getItem("mantine-color-scheme-value");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.setAttribute(
    "data-mantine-color-scheme",
    chosen === "dark" || (chosen !== "light" && dark) ? "dark" : "light",
  );

  // The person's language, or else the first of the browser's that is here, with its region.
  const kept = localStorage.getItem("culvert-language");
  const tags = navigator.languages.filter((tag) => /^(en|de)(?![a-z])/i.test(tag));
  const tag = kept === null ? tags[0] : (tags.find((tag) => tag.toLowerCase().startsWith(kept)) ?? kept);
  document.documentElement.lang = tag ?? "en";
  const catalogue = document.querySelector("meta[name=catalogue-de]")?.content;
  if (catalogue && /^de(?![a-z])/i.test(document.documentElement.lang)) {
    const preload = Object.assign(document.createElement("link"), { rel: "modulepreload", href: catalogue });
    preload.crossOrigin = "";
    document.head.append(preload);
  }

  // These requests run while the code is loading; src/first.ts takes them over.
  const session = fetch("/api/v1/session");
  session.catch(() => undefined);
  window.first = { session };
  if (location.pathname === "/console/" && !document.hidden) {
    const views = ["audit", "gateways", "traffic", "tunnels"];
    const asked = [
      ...views.map((view) => `view=${view}`),
      `language=${document.documentElement.lang.slice(0, 2)}`,
    ];
    const source = new EventSource(`/api/v1/events?${asked.join("&")}`);
    const heard = [];
    const hear = (event) => heard.push(event);
    for (const view of views) source.addEventListener(view, hear);
    window.first.stream = { source, views, heard, hear };
  }
}
