import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** Preloads react-dom, which is imported dynamically, with the page. */
const drawsAtOnce: Plugin = {
  name: "draws-at-once",
  transformIndexHtml: {
    order: "post",
    handler: (_, { bundle = {} }) =>
      Object.values(bundle)
        .filter((chunk) => "facadeModuleId" in chunk && chunk.facadeModuleId?.includes("/react-dom/client"))
        .map(({ fileName }) => ({
          tag: "link",
          attrs: { rel: "modulepreload", crossorigin: true, href: `/console/${fileName}` },
          injectTo: "head" as const,
        })),
  },
};

export default defineConfig({
  base: "/console/",
  plugins: [react(), drawsAtOnce],
  // The controller writes a fresh nonce in its place (http/console.py).
  html: { cspNonce: "{{nonce}}" },
  build: {
    target: "es2023",
    manifest: true,
    // Assets as data: URLs would need a wider policy.
    assetsInlineLimit: 0,
    // A view whose style sheet fails to load once would stay without it.
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        codeSplitting: {
          // One file for the first view and one for the code that several other views share: over HTTP/1.1, thirty small
          // files wait for each other.
          groups: [
            { name: "first", tags: ["$initial"] },
            { name: "shared", minShareCount: 2 },
          ],
        },
      },
    },
  },
});
