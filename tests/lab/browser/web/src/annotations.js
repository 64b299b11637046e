// Events of annotation queries, as Grafana's Prometheus data source reads them from samples.
import { FieldType, rangeUtil } from "@grafana/data";
import { of } from "rxjs";

const filled = (format, labels) => (format ?? "").replace(/{{\s*(.+?)\s*}}/g, (_, name) => labels[name] ?? "");

/** Samples without a hole between them are one event, with a beginning and an end. */
export function eventsOf(annotation, frames) {
  const step = rangeUtil.intervalToSeconds(annotation.step || "60s") * 1000;
  return of(frames.flatMap((frame) => eventsOfSeries(annotation, frame, step)));
}

function eventsOfSeries(annotation, frame, step) {
  const time = frame.fields.find((field) => field.type === FieldType.time);
  const value = frame.fields.find((field) => field.type === FieldType.number);
  const labels = value.labels ?? {};
  const told = {
    title: filled(annotation.titleFormat, labels) || frame.name,
    text: filled(annotation.textFormat, labels),
    tags: (annotation.tagKeys ?? "").split(",").filter(Boolean).map((name) => labels[name.trim()]).filter(Boolean),
  };
  const shown = [...time.values].filter((_, index) => value.values[index]);
  const at = annotation.useValueForTime
    ? [...new Set(value.values)].map((one) => [Math.floor(one), Math.floor(one)])
    : spans(shown, Math.max(step, time.config.interval ?? 0));
  return at.map(([from, to]) => ({ ...told, time: from, timeEnd: to }));
}

function spans(times, step) {
  const found = [];
  for (const one of times) {
    const last = found.at(-1);
    if (last && one - last[1] <= step) {
      last[1] = one;
    } else {
      found.push([one, one]);
    }
  }
  return found;
}
