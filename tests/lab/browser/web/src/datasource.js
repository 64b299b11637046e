// A data source that asks a real Prometheus from the browser; Grafana's asks through its server.
import { DataSourceApi, rangeUtil } from "@grafana/data";
import { getTemplateSrv } from "@grafana/runtime";

import { eventsOf } from "./annotations.js";
import { seriesFrames, tableFrame } from "./frames.js";

const MOST_POINTS = 11000; // more than that Prometheus refuses

export class Prometheus extends DataSourceApi {
  constructor(settings) {
    super(settings);
    this.url = settings.url;
    this.interval = settings.jsonData.timeInterval;
    this.annotations = {
      prepareAnnotation: (one) => one,
      prepareQuery: (one) => ({ ...one, refId: "Anno", format: "annotation", interval: one.step, legendFormat: "" }),
      processEvents: (one, frames) => eventsOf(one, frames),
    };
  }

  async query(request) {
    const targets = request.targets.filter((one) => !one.hide && one.expr);
    const tables = targets.filter((one) => one.format === "table").length;
    const answers = await Promise.allSettled(targets.map((one) => this.frames(one, request, tables > 1)));
    const failed = answers.filter((one) => one.status === "rejected");
    return {
      data: answers.flatMap((one) => one.value ?? []),
      errors: failed.map((one) => ({ message: one.reason.message })),
    };
  }

  async frames(target, request, several) {
    const seconds = stepOf(target, request, this.interval);
    const expr = this.interpolated(target.expr, request, seconds);
    const { from, to } = request.range;
    const when = target.instant
      ? ["query", { query: expr, time: to.valueOf() / 1000 }]
      : ["query_range", { query: expr, start: aligned(from, seconds), end: aligned(to, seconds), step: seconds }];
    const { result, resultType } = await this.ask(...when);
    const series = resultType === "scalar" ? [{ metric: {}, value: result }] : result;
    return target.format === "table"
      ? [tableFrame(target, series, several)]
      : seriesFrames(target, series, seconds * 1000, expr);
  }

  interpolated(expr, request, seconds) {
    const scrape = rangeUtil.intervalToSeconds(this.interval);
    const range = Math.round((request.range.to - request.range.from) / 1000);
    const own = {
      __rate_interval: `${Math.max(seconds + scrape, 4 * scrape)}s`, __interval: `${seconds}s`,
      __interval_ms: String(seconds * 1000), __range: `${range}s`, __range_s: String(range), __range_ms: `${range}000`,
    };
    const known = expr.replace(/\$\{?(__\w+)\}?/g, (text, name) => own[name] ?? text);
    return getTemplateSrv().replace(known, request.scopedVars, forPromql);
  }

  /** The answers that `label_values` and `query_result` have for a variable. */
  async metricFindQuery(model, request) {
    const text = getTemplateSrv().replace(model.query ?? model, request.scopedVars, forPromql);
    const span = { start: request.range.from.valueOf() / 1000, end: request.range.to.valueOf() / 1000 };
    const labels = text.match(/^\s*label_values\(\s*(?:([\s\S]+),\s*)?(\w+)\s*\)\s*$/);
    if (labels) {
      const match = labels[1] ? { "match[]": labels[1] } : {};
      const values = await this.ask(`label/${labels[2]}/values`, { ...span, ...match });
      return values.map((one) => ({ text: one }));
    }
    const result = text.match(/^\s*query_result\(([\s\S]+)\)\s*$/);
    if (result) {
      const { result: found } = await this.ask("query", { query: result[1], time: span.end });
      return found.map(({ metric, value }) => ({ text: `${metricText(metric)} ${value[1]} ${value[0] * 1000}` }));
    }
    throw new Error(`a variable asks for neither label_values nor query_result: ${text}`);
  }

  async ask(path, parameters) {
    const answer = await fetch(`${this.url}/api/v1/${path}?${new URLSearchParams(parameters)}`);
    const said = await answer.json();
    if (said.status !== "success") {
      throw new Error(`${said.error} in ${parameters.query ?? path}`);
    }
    return said.data;
  }

  async testDatasource() {
    return { status: "success", message: "" };
  }
}

function stepOf(target, request, scrape) {
  const range = (request.range.to - request.range.from) / 1000;
  const least = rangeUtil.intervalToSeconds(getTemplateSrv().replace(target.interval || scrape, request.scopedVars));
  return Math.ceil(Math.max(request.intervalMs / 1000, least, range / MOST_POINTS));
}

const aligned = (moment, seconds) => Math.floor(moment.valueOf() / 1000 / seconds) * seconds;
const quoted = (value) => String(value).replace(/\\/g, "\\\\").replace(/"/g, '\\"');
const metricText = (labels) => `${labels.__name__ ?? ""}{${Object.entries(labels).filter(([name]) => name !== "__name__")
  .map(([name, value]) => `${name}="${value}"`).join(",")}}`;

/** One value stands in a quoted string as it is; several, or "All", stand in a regular expression. */
function forPromql(value, variable) {
  if (!variable.multi && !variable.includeAll) {
    return quoted(value);
  }
  const each = [value].flat().map((one) => quoted(String(one).replace(/[$^*{}[\]'+?.()|\\]/g, "\\$&")));
  return each.length === 1 ? each[0] : `(${each.join("|")})`;
}
