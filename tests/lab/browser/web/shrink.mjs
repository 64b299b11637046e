// node shrink.mjs PACKAGES FILE...: store pictures with a palette of 256 colours, a third of the size.
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";

const [packages, ...files] = process.argv.slice(2);
const png = createRequire(path.join(packages, "package.json"))("upng-js");

for (const file of files) {
  const picture = png.decode(await readFile(file));
  const pixels = png.toRGBA8(picture)[0];
  await writeFile(file, Buffer.from(png.encode([pixels], picture.width, picture.height, 256)));
}
