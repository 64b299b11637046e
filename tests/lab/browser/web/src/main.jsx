// Draws /d/UID?from=…&to=…&var-…, as Grafana does, from the JSON that the server beside it holds.
import "./boot.js";
import "./page.css";
import { ThemeContext } from "@grafana/data";
import { config, locationService } from "@grafana/runtime";
import { sceneUtils } from "@grafana/scenes";
import { GlobalStyles, PortalContainer } from "@grafana/ui";
import { createRoot } from "react-dom/client";
import { Router } from "react-router-dom";

import { sceneOf } from "./dashboard.jsx";
import { furnish } from "./grafana.js";
import { DashboardLinks } from "./head.jsx";
import { observe } from "./readout.js";

async function json(path) {
  const answer = await fetch(path);
  if (!answer.ok) {
    throw new Error(`${path}: ${answer.status}`);
  }
  return answer.json();
}

function Page({ scene, dashboard, dashboards }) {
  return (
    <ThemeContext.Provider value={config.theme2}>
      <GlobalStyles />
      <Router location={locationService.getLocation()} navigator={locationService.getHistory()}>
        <main className="page">
          <header className="page-head">
            <h1>{dashboard.title}</h1>
            <DashboardLinks links={dashboard.links ?? []} dashboards={dashboards} scene={scene} />
          </header>
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
  const scene = sceneOf(dashboard, { expand: asked.has("expand") });
  sceneUtils.syncStateFromSearchParams(scene, asked);
  observe(scene);
  const page = <Page scene={scene} dashboard={dashboard} dashboards={dashboards} />;
  createRoot(document.getElementById("page")).render(page);
}

start();
