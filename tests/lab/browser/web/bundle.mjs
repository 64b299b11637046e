// node bundle.mjs PACKAGES OUT: turn src/ and the packages it stands on into a folder of files to serve.
import { copyFile, cp } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";

const [packages, out] = process.argv.slice(2);
const here = import.meta.dirname;
const modules = path.join(packages, "node_modules");
const esbuild = createRequire(path.join(packages, "package.json"))("esbuild");

/** Grafana's components stand on version 5 of the router, its scenes on version 6. */
const routerOfComponents = {
  name: "router-of-components",
  setup(build) {
    build.onResolve({ filter: /^react-router-dom$/ }, ({ importer, path: name, kind, pluginData }) =>
      importer.includes("react-router-dom-v5-compat") && pluginData !== "again"
        ? build.resolve(name, { kind, resolveDir: path.join(modules, "@grafana", "ui"), pluginData: "again" })
        : undefined);
  },
};

await esbuild.build({
  entryPoints: [path.join(here, "src", "main.jsx")],
  outdir: out,
  nodePaths: [modules],
  plugins: [routerOfComponents],
  bundle: true,
  minify: true,
  splitting: true,
  format: "esm",
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"', global: "globalThis" },
  loader: { ".svg": "dataurl", ".png": "dataurl", ".woff2": "file", ".woff": "file", ".ttf": "file" },
  logLevel: "warning",
});
await copyFile(path.join(here, "index.html"), path.join(out, "index.html"));
// Grafana asks for two cuts of Inter; the variable font is both.
const inter = path.join(modules, "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2");
for (const cut of ["Regular", "Medium"]) {
  await cp(inter, path.join(out, "fonts", "inter", `Inter-${cut}.woff2`));
}
await cp(path.join(modules, "@grafana/ui/dist/public/img/icons"), path.join(out, "icons"), { recursive: true });
