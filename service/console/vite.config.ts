import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "/console/",
  plugins: [react()],
  // The controller writes a fresh nonce in its place (rest/console.py).
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
