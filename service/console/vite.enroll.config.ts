import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** The page of an invitation. It is a build of its own, because a person who opens it must not load the console. */
export default defineConfig({
  base: "/enroll/",
  publicDir: false,
  plugins: [react()],
  // The controller writes a fresh nonce in its place (http/console.py).
  html: { cspNonce: "{{nonce}}" },
  build: {
    outDir: "dist/enroll",
    target: "es2023",
    // Assets as data: URLs would need a wider policy.
    assetsInlineLimit: 0,
    rolldownOptions: { input: "enroll.html" },
  },
});
