import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** What draws comes along with what is drawn, and not after it. */
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
    // As data: URLs they would need a wider policy.
    assetsInlineLimit: 0,
    // A view whose style sheet once failed to load would come without it from then on.
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        codeSplitting: {
          // What the first view needs in one file, and in one what several of the others do: over HTTP/1.1 thirty small
          // ones wait for each other.
          groups: [
            { name: "first", tags: ["$initial"] },
            { name: "shared", minShareCount: 2 },
          ],
        },
      },
    },
  },
});
