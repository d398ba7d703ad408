import { defineConfig } from "vitest/config";

import { texts } from "./vite.config.ts";

export default defineConfig({
  plugins: [texts],
  test: { include: ["src/**/*.test.ts"], setupFiles: ["src/locale/spoken.ts"] },
});
