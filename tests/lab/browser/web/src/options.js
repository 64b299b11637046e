// The options of fields that Grafana's core registers: the standard ones, and each panel's own.
import {
  booleanOverrideProcessor, dataLinksOverrideProcessor, displayNameOverrideProcessor, identityOverrideProcessor,
  numberOverrideProcessor, stringOverrideProcessor, thresholdsOverrideProcessor, unitOverrideProcessor,
  valueMappingsOverrideProcessor,
} from "@grafana/data";

const none = () => null;
const option = (id, process, more = {}) => ({
  id, path: id, name: id, editor: none, override: none, process, shouldApply: () => true, settings: {}, ...more,
});

export const STANDARD_OPTIONS = [
  option("unit", unitOverrideProcessor),
  option("min", numberOverrideProcessor),
  option("max", numberOverrideProcessor),
  option("fieldMinMax", booleanOverrideProcessor),
  option("decimals", numberOverrideProcessor),
  option("displayName", displayNameOverrideProcessor),
  option("noValue", stringOverrideProcessor),
  option("color", identityOverrideProcessor),
  option("links", dataLinksOverrideProcessor),
  option("mappings", valueMappingsOverrideProcessor),
  option("thresholds", thresholdsOverrideProcessor, {
    defaultValue: { mode: "absolute", steps: [{ value: -Infinity, color: "green" }, { value: 80, color: "red" }] },
  }),
  option("filterable", booleanOverrideProcessor),
  option("description", stringOverrideProcessor),
];

const HIDDEN = { hideFrom: { tooltip: false, viz: false, legend: false } };
const GRAPH = {
  drawStyle: "line", lineInterpolation: "linear", lineWidth: 1, lineStyle: undefined, fillOpacity: 0, fillBelowTo: undefined,
  gradientMode: "none", showPoints: "auto", pointSize: 5, stacking: { mode: "none", group: "A" }, spanNulls: false,
  insertNulls: false, axisPlacement: "auto", axisGridShow: undefined, axisLabel: "", axisWidth: undefined,
  axisSoftMin: undefined, axisSoftMax: undefined, axisCenteredZero: false, axisBorderShow: false, axisColorMode: "text",
  scaleDistribution: { type: "linear" }, barAlignment: 0, barWidthFactor: 0.6, barMaxWidth: undefined, lineColor: undefined,
  pointColor: undefined, transform: undefined, thresholdsStyle: { mode: "off" }, showValues: false, ...HIDDEN,
};
const STATES = { lineWidth: 0, fillOpacity: 70, spanNulls: false, insertNulls: false, axisPlacement: "auto", ...HIDDEN };

/** By panel type: the names under `custom`, with what holds where a dashboard says nothing. */
export const CUSTOM_OPTIONS = {
  timeseries: GRAPH,
  table: {
    align: "auto", cellOptions: { type: "auto" }, width: undefined, minWidth: undefined, inspect: false, hidden: undefined,
    filterable: undefined, footer: undefined, wrapText: undefined, wrapHeaderText: undefined, tooltip: undefined, ...HIDDEN,
  },
  "state-timeline": STATES,
  "status-history": { ...STATES, lineWidth: 1 },
};

export function customOptions(builder, type) {
  for (const [path, defaultValue] of Object.entries(CUSTOM_OPTIONS[type] ?? {})) {
    builder.addCustomEditor(option(path, identityOverrideProcessor, { defaultValue }));
  }
}
