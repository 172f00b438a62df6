// Takes out of package-lock.json what names a host: the lock pins versions and their hashes, never where they are fetched.
import { readFileSync, writeFileSync } from "node:fs";

const path = new URL("../package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(path, "utf-8"));
for (const entry of Object.values(lock.packages)) {
  delete entry.resolved;
  delete entry.funding;
}
writeFileSync(path, JSON.stringify(lock, null, 2) + "\n");
