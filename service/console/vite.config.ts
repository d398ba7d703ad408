import { lingui } from "@lingui/vite-plugin";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** Preloads what is imported dynamically and needed at once: react-dom, and the catalogue where German is spoken (public/first.js). */
const drawsAtOnce: Plugin = {
  name: "draws-at-once",
  transformIndexHtml: {
    order: "post",
    handler: (_, { bundle = {} }) => {
      const addressOf = (module: string) =>
        Object.values(bundle)
          .filter((chunk) => "facadeModuleId" in chunk && chunk.facadeModuleId?.includes(module))
          .map(({ fileName }) => `/console/${fileName}`);
      return [
        ...addressOf("/react-dom/client").map((href) => ({
          tag: "link",
          attrs: { rel: "modulepreload", crossorigin: true, href },
          injectTo: "head" as const,
        })),
        ...addressOf("/locale/de.po").map((content) => ({
          tag: "meta",
          attrs: { name: "catalogue-de", content },
          injectTo: "head-prepend" as const,
        })),
      ];
    },
  },
};

// English messages stay in the code; a message without German fails the build.
export const texts = lingui({
  macroTransform: { macro: { descriptorFields: "message" } },
  failOnMissing: true,
});

export default defineConfig({
  base: "/console/",
  plugins: [react(), texts, drawsAtOnce],
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
