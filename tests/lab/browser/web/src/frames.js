// Prometheus' answers as the data frames that Grafana's Prometheus data source makes of them.
import { FieldType } from "@grafana/data";

const NUMBERS = { "+Inf": Infinity, "-Inf": -Infinity, NaN: NaN };
const number = (text) => NUMBERS[text] ?? Number(text);

/** One frame for each series. */
export function seriesFrames(target, series, step, expr) {
  return series.map(({ metric, values, value }) => {
    const { __name__: name, ...labels } = metric;
    const points = values ?? [value];
    return {
      refId: target.refId,
      name: name ?? expr,
      fields: [
        { name: "Time", type: FieldType.time, config: { interval: step }, values: points.map(([at]) => at * 1000) },
        {
          name: "Value",
          type: FieldType.number,
          labels,
          config: { displayNameFromDS: legend(target.legendFormat, metric, expr) },
          values: points.map(([, text]) => number(text)),
        },
      ],
    };
  });
}

/** One frame for all series, with a column for each label. */
export function tableFrame(target, series, several) {
  const names = [...new Set(series.flatMap(({ metric }) => Object.keys(metric)))].sort();
  const rows = series.flatMap(({ metric, values, value }) => (values ?? [value]).map((point) => ({ metric, point })));
  const value = several ? `Value #${target.refId}` : "Value";
  if (rows.length === 0) {
    return { refId: target.refId, fields: [] };
  }
  return {
    refId: target.refId,
    fields: [
      { name: "Time", type: FieldType.time, config: {}, values: rows.map(({ point }) => point[0] * 1000) },
      ...names.map((name) => ({
        name, type: FieldType.string, config: { filterable: true }, values: rows.map(({ metric }) => metric[name] ?? ""),
      })),
      { name: value, type: FieldType.number, config: {}, values: rows.map(({ point }) => number(point[1])) },
    ],
  };
}

function legend(format, metric, expr) {
  if (format === "__auto" || !format) {
    return Object.keys(metric).length === 0 ? expr : undefined;
  }
  return format.replace(/{{\s*(.+?)\s*}}/g, (_, name) => metric[name] ?? "");
}
