// Panel types by name: Grafana's published components inside, stand-ins where only its core has one.
import { FieldColorModeId, PanelPlugin } from "@grafana/data";

import { CUSTOM_OPTIONS, customOptions } from "../options.js";
import { Bars, Stat } from "./numbers.jsx";
import { StateTimeline, StatusHistory } from "./states.jsx";
import { TableOfFrames } from "./table.jsx";
import { Text } from "./text.jsx";
import { Graph } from "./timeseries.jsx";

const byThresholds = FieldColorModeId.Thresholds;
const bySeries = FieldColorModeId.PaletteClassic;

/** Component, and the colour mode where a dashboard names none. */
const PANELS = {
  timeseries: [Graph, bySeries],
  stat: [Stat, byThresholds],
  bargauge: [Bars, byThresholds],
  table: [TableOfFrames, byThresholds],
  text: [Text, byThresholds],
  "state-timeline": [StateTimeline, byThresholds],
  "status-history": [StatusHistory, byThresholds],
};
const WITHOUT_QUERY = ["text"];
const WITH_ANNOTATIONS = ["timeseries"];
const made = new Map();

export const isPanelType = (id) => id in PANELS;
export const isCustomOption = (type, name) => name in (CUSTOM_OPTIONS[type] ?? {});

export function panelPlugin(id) {
  if (!made.has(id)) {
    made.set(id, pluginOf(id));
  }
  return made.get(id);
}

function pluginOf(id) {
  const [component, mode] = PANELS[id];
  const plugin = new PanelPlugin(component).useFieldConfig({
    standardOptions: { color: { defaultValue: { mode }, settings: {} } },
    useCustomConfig: (builder) => customOptions(builder, id),
  });
  plugin.setDataSupport({ annotations: WITH_ANNOTATIONS.includes(id), alertStates: false });
  plugin.meta = {
    id, name: id, type: "panel", module: "", baseUrl: "", skipDataQuery: WITHOUT_QUERY.includes(id),
    info: { version: "", logos: {}, author: {}, links: [], screenshots: [] },
  };
  return plugin;
}
