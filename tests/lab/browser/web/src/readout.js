// What a test reads of a drawn dashboard: window.drawn.
import { LoadingState } from "@grafana/data";
import { sceneGraph, SceneDataLayerSet, VizPanel } from "@grafana/scenes";

const over = [LoadingState.Done, LoadingState.Error];

export function observe(scene) {
  const panels = () => sceneGraph.findAllObjects(scene, (one) => one instanceof VizPanel).map(panelState);
  window.drawn = {
    panels,
    variables: () => scene.state.$variables.state.variables.map(variableState),
    /** What has no value, no answer or no component yet. */
    waiting: () => {
      const variables = scene.state.$variables.state.variables.filter((one) => scene.state.$variables.isVariableLoadingOrWaitingToUpdate(one));
      const layers = sceneGraph.findAllObjects(scene, (one) => one instanceof SceneDataLayerSet).flatMap((one) => one.state.layers)
        .filter((one) => one.state.isEnabled && !over.includes(one.state.data?.state));
      const asked = panels().filter((one) => !over.includes(one.state));
      const empty = panels().filter((one) => !document.querySelector(`[data-viz-panel-key="${one.key}"] [data-drawn]`));
      const named = (what, found) => found.map((one) => `${what} ${one.title ?? one.state.name}`);
      return [...named("variable", variables), ...named("layer", layers), ...named("query of", asked), ...named("component of", empty)];
    },
  };
}

function panelState(panel) {
  const data = panel.state.$data ? sceneGraph.getData(panel).state.data : { state: LoadingState.Done, series: [] };
  return {
    key: panel.state.key,
    title: sceneGraph.interpolate(panel, panel.state.title),
    type: panel.state.pluginId,
    state: data?.state ?? "NotStarted",
    errors: [...(data?.errors ?? []), ...(panel.state._pluginLoadError ? [{ message: panel.state._pluginLoadError }] : [])]
      .map((one) => one.message),
    frames: data?.series.length ?? 0,
    events: data?.annotations?.reduce((sum, frame) => sum + frame.length, 0) ?? 0,
  };
}

function variableState(one) {
  const { name, type, value, options = [], error } = one.state;
  return { name, type, value, options: options.map((option) => option.value), error: error ? String(error) : "" };
}
