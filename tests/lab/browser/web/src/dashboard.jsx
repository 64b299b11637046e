// A classic dashboard (schema version 36 and later) as a scene of Grafana's own engine.
import {
  ConstantVariable, CustomVariable, DataSourceVariable, EmbeddedScene, IntervalVariable, QueryVariable, SceneControlsSpacer,
  SceneDataLayerSet, SceneDataTransformer, SceneGridItem, SceneGridLayout, SceneGridRow,
  SceneQueryRunner, SceneReactObject, SceneRefreshPicker, SceneTimePicker, SceneTimeRange, SceneVariableSet, TextBoxVariable,
  VariableValueSelectors, VizPanel, behaviors, dataLayers,
} from "@grafana/scenes";
import { standardTransformersRegistry } from "@grafana/data";

import { LayerSwitches, NextLine, PanelLinks, Title } from "./head.jsx";
import { isCustomOption, isPanelType } from "./panels/index.js";

/** `dashboards` are [{uid, title, tags}] of all that there are; `expand` opens rows that are closed. */
export function sceneOf(dashboard, dashboards, { expand }) {
  const annotations = dashboard.annotations?.list?.filter((one) => one.target?.expr || one.expr) ?? [];
  const layers = new SceneDataLayerSet({ name: "Annotations", layers: annotations.map(layerOf) });
  const scene = new EmbeddedScene({
    $timeRange: new SceneTimeRange({ ...dashboard.time, timeZone: dashboard.timezone === "browser" ? undefined : dashboard.timezone }),
    $variables: new SceneVariableSet({ variables: (dashboard.templating?.list ?? []).map(variableOf) }),
    $data: layers,
    $behaviors: [new behaviors.CursorSync({ sync: dashboard.graphTooltip ?? 0 })],
    controls: [
      drawnBy(() => <Title dashboard={dashboard} dashboards={dashboards} scene={scene} />),
      new SceneControlsSpacer(), new SceneTimePicker({ isOnCanvas: true }), new SceneRefreshPicker({ isOnCanvas: true }),
      drawnBy(() => <NextLine />), new VariableValueSelectors({}), drawnBy(() => <LayerSwitches set={layers} />),
    ],
    body: new SceneGridLayout({ isLazy: false, children: itemsOf(dashboard.panels, expand) }),
  });
  return scene;
}

const drawnBy = (component) => new SceneReactObject({ component });

const VARIABLES = {
  datasource: (one, shared) => new DataSourceVariable({ ...shared, pluginId: one.query, regex: one.regex }),
  query: (one, shared) => new QueryVariable({
    ...shared, query: one.query, datasource: one.datasource, regex: one.regex, sort: one.sort, refresh: one.refresh,
  }),
  custom: (one, shared) => new CustomVariable({ ...shared, query: one.query }),
  interval: (one, shared) => new IntervalVariable({ ...shared, intervals: one.query.split(",") }),
  textbox: (one, { name, label, hide }) => new TextBoxVariable({ name, label, hide, value: one.current?.value ?? one.query ?? "" }),
  constant: (one, { name, label, hide }) => new ConstantVariable({ name, label, hide, value: one.query }),
};

function variableOf(one) {
  const shared = {
    name: one.name, label: one.label, description: one.description, hide: one.hide ?? 0, isMulti: Boolean(one.multi),
    includeAll: Boolean(one.includeAll), defaultToAll: Boolean(one.includeAll), allValue: one.allValue || undefined,
    value: one.current?.value ?? "", text: one.current?.text ?? "", skipUrlSync: Boolean(one.skipUrlSync),
  };
  return VARIABLES[one.type](one, shared);
}

function layerOf(one) {
  const { target, ...rest } = one;
  return new dataLayers.AnnotationsDataLayer({
    name: one.name, isEnabled: one.enable !== false, isHidden: Boolean(one.hide), query: { ...rest, ...target, name: one.name },
  });
}

/** A row is followed by its panels, unless it is closed and holds them itself. */
function itemsOf(panels, expand) {
  const top = [];
  let row = null;
  let lower = 0;
  for (const panel of panels) {
    const moved = { ...panel, gridPos: { ...panel.gridPos, y: panel.gridPos.y + lower } };
    if (panel.type !== "row") {
      (row?.state.children ?? top).push(itemOf(moved));
      continue;
    }
    const open = !panel.collapsed || expand;
    row = new SceneGridRow({ title: panel.title, y: moved.gridPos.y, isCollapsible: true, isCollapsed: !open, children: [] });
    top.push(row);
    if (panel.collapsed) {
      const inside = panel.panels.map((one) => ({ ...one, gridPos: { ...one.gridPos, y: one.gridPos.y + lower } }));
      row.setState({ children: inside.map(itemOf) });
      lower += open ? Math.max(...panel.panels.map((one) => one.gridPos.y + one.gridPos.h)) - panel.gridPos.y - 1 : 0;
      row = null;
    }
  }
  return top;
}

function itemOf(panel) {
  const { x, y, w, h } = panel.gridPos;
  return new SceneGridItem({ x, y, width: w, height: h, isResizable: false, isDraggable: false, body: panelOf(panel) });
}

function panelOf(panel) {
  complain(panel);
  const viz = new VizPanel({
    key: `panel-${panel.id}`, title: panel.title, description: panel.description, pluginId: panel.type,
    options: panel.options ?? {}, fieldConfig: panel.fieldConfig ?? { defaults: {}, overrides: [] },
    displayMode: panel.transparent ? "transparent" : "default", hoverHeader: !panel.title, $data: dataOf(panel),
  });
  if (panel.links?.length) {
    viz.setState({ titleItems: [new SceneReactObject({ component: () => <PanelLinks links={panel.links} panel={viz} /> })] });
  }
  return viz;
}

function dataOf(panel) {
  if (!panel.targets?.length) {
    return undefined;
  }
  const queries = new SceneQueryRunner({
    datasource: panel.datasource, queries: panel.targets, maxDataPoints: panel.maxDataPoints, minInterval: panel.interval,
  });
  return new SceneDataTransformer({ $data: queries, transformations: panel.transformations ?? [] });
}

/** Grafana passes over what it does not know; whoever writes a dashboard wants to hear of it. */
function complain(panel) {
  const { defaults = {}, overrides = [] } = panel.fieldConfig ?? {};
  const custom = [
    ...Object.keys(defaults.custom ?? {}),
    ...overrides.flatMap((one) => one.properties).filter((one) => one.id.startsWith("custom.")).map((one) => one.id.split(".")[1]),
  ];
  const unknown = [
    ...(isPanelType(panel.type) ? [] : [`panel type ${panel.type}`]),
    ...custom.filter((name) => !isCustomOption(panel.type, name)).map((name) => `option custom.${name}`),
    ...(panel.transformations ?? []).filter((one) => !standardTransformersRegistry.getIfExists(one.id)).map((one) => `transformation ${one.id}`),
    ...(panel.repeat ? [`repeat by ${panel.repeat}`] : []),
  ];
  if (unknown.length) {
    console.error(`panel ${panel.title}: not known here: ${unknown.join(", ")}`);
  }
}
