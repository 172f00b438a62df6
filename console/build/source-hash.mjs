// Writes the hash of the source beside the built files. tests/repo/test_console_build.py computes the same and compares.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join, posix, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
// What the built files are made of. Mock and tests are not.
const PARTS = ["index.html", "package.json", "package-lock.json", "vite.config.ts", "tsconfig.json", "public", "src"];

function files(path) {
  return statSync(path).isDirectory() ? readdirSync(path).flatMap((name) => files(join(path, name))) : [path];
}

const hash = createHash("sha256");
const names = PARTS.flatMap((part) => files(join(root, part))).map((path) => relative(root, path).split(sep).join(posix.sep));
for (const name of names.sort((a, b) => (a < b ? -1 : 1))) {
  const bytes = readFileSync(join(root, name));
  hash.update(`${name}\0${bytes.length}\0`);
  hash.update(bytes);
}
writeFileSync(join(root, "../src/tidelog/console/static/SOURCE_HASH"), hash.digest("hex") + "\n");
