// What Grafana's core hands to its own libraries when it starts: they are published, the core is not.
import {
  EventBusSrv, LoadingState, locationUtil, standardEditorsRegistry, standardFieldConfigEditorRegistry,
  standardTransformers, standardTransformersRegistry, toDataFrame,
} from "@grafana/data";
import {
  config, setAppEvents, setDataSourceSrv, setPluginImportUtils, setRunRequest, setTemplateSrv,
} from "@grafana/runtime";
import { sceneGraph } from "@grafana/scenes";
import { from, map, of, startWith, catchError } from "rxjs";

import { Prometheus } from "./datasource.js";
import { STANDARD_OPTIONS } from "./options.js";
import { panelPlugin } from "./panels/index.js";

/** `settings.datasources` are [{uid, name, url, timeInterval, isDefault}], all of them Prometheus. */
export function furnish(settings) {
  setAppEvents(new EventBusSrv());
  setRunRequest(runRequest);
  setTemplateSrv(templates);
  setDataSourceSrv(sources(settings.datasources.map(instanceSettings)));
  setPluginImportUtils({
    importPanelPlugin: async (id) => panelPlugin(id),
    getPanelPluginFromCache: (id) => panelPlugin(id),
  });
  locationUtil.initialize({ config, getVariablesUrlParams: () => ({}), getTimeRangeForUrl: () => ({}) });
  standardEditorsRegistry.setInit(() => []);
  standardFieldConfigEditorRegistry.setInit(() => STANDARD_OPTIONS);
  standardTransformersRegistry.setInit(transformers);
}

const templates = {
  replace(text, scoped = {}, format = undefined) {
    const object = scoped.__sceneObject?.value.valueOf() ?? window.__grafanaSceneContext;
    return object ? sceneGraph.interpolate(object, text, scoped, format) : text;
  },
  containsTemplate: (text) => /\$/.test(text ?? ""),
  getVariables: () => [],
  updateTimeRange() {},
};

/** The registry wants one entry for each id; two of the published names mean the same transformer. */
function transformers() {
  const byId = new Map(Object.values(standardTransformers).map((one) => [one.id, one]));
  return [...byId.values()].map((one) => ({
    id: one.id, name: one.name, description: one.description, transformation: async () => one, editor: () => null,
  }));
}

function instanceSettings(one) {
  return {
    uid: one.uid, name: one.name, url: one.url, isDefault: Boolean(one.isDefault), type: "prometheus", id: 1,
    meta: { id: "prometheus", name: "Prometheus", info: { logos: {} }, metrics: true, annotations: true },
    jsonData: { timeInterval: one.timeInterval }, access: "proxy", readOnly: true,
  };
}

function sources(settings) {
  const live = new Map(settings.map((one) => [one.uid, new Prometheus(one)]));
  const chosen = (ref, scoped) => {
    const wanted = templates.replace(ref?.uid ?? ref ?? "default", scoped);
    const one = settings.find((each) => [each.uid, each.name].includes(wanted) || (wanted === "default" && each.isDefault));
    if (!one) {
      throw new Error(`Datasource ${wanted} was not found`);
    }
    return one;
  };
  return {
    get: async (ref, scoped) => live.get(chosen(ref, scoped).uid),
    getInstanceSettings: (ref, scoped) => chosen(ref, scoped),
    getList: ({ pluginId } = {}) => settings.filter((one) => !pluginId || one.type === pluginId),
    reload() {},
    registerRuntimeDataSource() {},
  };
}

function runRequest(datasource, request) {
  const answer = { series: [], annotations: [], timeRange: request.range, request };
  return from(datasource.query(request)).pipe(
    map((response) => ({
      ...answer,
      state: response.errors?.length ? LoadingState.Error : LoadingState.Done,
      series: response.data.map(toDataFrame),
      errors: response.errors,
      error: response.errors?.[0],
    })),
    catchError((error) => of({ ...answer, state: LoadingState.Error, errors: [error], error })),
    startWith({ ...answer, state: LoadingState.Loading }),
  );
}
