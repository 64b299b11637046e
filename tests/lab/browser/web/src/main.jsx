// Draws /d/UID?from=…&to=…&var-…, as Grafana does, from the JSON that the server beside it holds.
import "./boot.js";
import "./page.css";
import { ThemeContext } from "@grafana/data";
import { config, locationService } from "@grafana/runtime";
import { sceneUtils } from "@grafana/scenes";
import { GlobalStyles, PortalContainer } from "@grafana/ui";
import { createRoot } from "react-dom/client";
import { cacheStore } from "react-inlinesvg";
import { Router } from "react-router-dom";

import { sceneOf } from "./dashboard.jsx";
import { furnish } from "./grafana.js";
import { observe } from "./readout.js";

/** Had before they are asked for: who asks while another does gives up after a tenth of a second. */
const ICONS = [
  "angle-double-left", "angle-double-right", "angle-down", "angle-right", "arrow-down", "arrow-up", "check", "clock-nine",
  "external-link-alt", "info-circle", "search-minus", "sync", "times",
];

async function json(path) {
  const answer = await fetch(path);
  if (!answer.ok) {
    throw new Error(`${path}: ${answer.status}`);
  }
  return answer.json();
}

function Page({ scene }) {
  return (
    <ThemeContext.Provider value={config.theme2}>
      <GlobalStyles />
      <Router location={locationService.getLocation()} navigator={locationService.getHistory()}>
        <main className="page">
          <scene.Component model={scene} />
        </main>
        <PortalContainer />
      </Router>
    </ThemeContext.Provider>
  );
}

async function start() {
  const uid = window.location.pathname.split("/")[2];
  const [dashboard, dashboards, settings] = await Promise.all([
    json(`/dashboards/${uid}.json`),
    json("/dashboards/index.json"),
    json("/settings.json"),
  ]);
  const asked = new URLSearchParams(window.location.search);
  furnish(settings);
  document.title = dashboard.title;
  const scene = sceneOf(dashboard, dashboards, { expand: asked.has("expand") });
  sceneUtils.syncStateFromSearchParams(scene, asked);
  observe(scene);
  await Promise.all(ICONS.map((name) => cacheStore.get(`/public/build/img/icons/unicons/${name}.svg`)));
  createRoot(document.getElementById("page")).render(<Page scene={scene} />);
}

start();
