// Runs after the build: compresses each file, and checks the first view's size.
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync } from "node:zlib";

const BUDGET_KIB = 350;
const COMPRESSED = /\.(js|css|svg)$/;
const dist = new URL("dist/", import.meta.url).pathname;
const manifestFile = join(dist, ".vite/manifest.json");
const manifest = JSON.parse(readFileSync(manifestFile, "utf8"));
const sizes = new Map();

for (const file of readdirSync(dist, { recursive: true })) {
  if (!COMPRESSED.test(file)) continue;
  const compressed = brotliCompressSync(readFileSync(join(dist, file)));
  writeFileSync(join(dist, `${file}.br`), compressed);
  sizes.set(file, compressed.length);
}

function scripts(entry, found = new Set()) {
  if (!found.has(entry)) {
    found.add(entry);
    for (const next of manifest[entry].imports ?? []) scripts(next, found);
  }
  return found;
}

const whole = (entries) =>
  [...entries].reduce((sum, entry) => sum + sizes.get(manifest[entry].file), 0) / 1024;
// Where German is spoken, its catalogue is loaded too.
const first = ["node_modules/react-dom/client.js", "src/locale/de.po"].reduce(
  (found, entry) => scripts(entry, found),
  scripts("index.html"),
);
rmSync(join(dist, ".vite"), { recursive: true });

console.log(`first view: ${whole(first).toFixed(0)} KiB of JavaScript, compressed (at most ${BUDGET_KIB})`);
if (whole(first) > BUDGET_KIB) process.exit(1);
