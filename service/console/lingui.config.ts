import { defineConfig } from "@lingui/conf";
import { formatter } from "@lingui/format-po";

/** English stands in the code, German in the catalogue. The page of an invitation has its own table (src/enrol/texts.ts). */
export default defineConfig({
  sourceLocale: "en",
  locales: ["de"],
  catalogs: [
    {
      path: process.env["CULVERT_CATALOGUE"] ?? "<rootDir>/src/locale/{locale}",
      include: ["src"],
      exclude: ["src/enrol/**", "src/**/*.test.ts"],
    },
  ],
  format: formatter({ lineNumbers: false, origins: false }),
  orderBy: "message",
});
