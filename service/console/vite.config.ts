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
  },
});
