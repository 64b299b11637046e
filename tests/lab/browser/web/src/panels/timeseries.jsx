// The time series panel around Grafana's own chart, with annotations drawn over it.
import { applyNullInsertThreshold, FieldType } from "@grafana/data";
import { TimeSeries, useTheme2 } from "@grafana/ui";
import { useEffect, useLayoutEffect, useMemo, useRef } from "react";

import { Drawn, NoValue } from "./drawn.jsx";

const LEGEND = { showLegend: true, displayMode: "list", placement: "bottom", calcs: [] };

export function Graph({ data, options, fieldConfig, width, height, timeRange, timeZone }) {
  const frames = useMemo(() => data.series.filter(isGraphable).map(withGaps), [data.series]);
  if (frames.length === 0) {
    return <NoValue fieldConfig={fieldConfig} width={width} height={height} />;
  }
  return (
    <Drawn count={frames.length}>
      <TimeSeries
        frames={frames}
        structureRev={data.structureRev}
        width={width}
        height={height}
        timeRange={timeRange}
        timeZone={timeZone}
        legend={{ ...LEGEND, ...options.legend }}
        options={options}
      >
        {(builder) => <Marks builder={builder} events={eventsIn(data.annotations ?? [])} />}
      </TimeSeries>
    </Drawn>
  );
}

const isGraphable = (frame) =>
  frame.length > 0 && [FieldType.time, FieldType.number].every((type) => frame.fields.some((one) => one.type === type));

/** A missing sample is a gap, as Grafana's panel has it; the component itself sees to the first series alone. */
const withGaps = (frame) => {
  const copy = { ...frame, fields: frame.fields.map((one) => ({ ...one, state: { ...one.state, nullThresholdApplied: false } })) };
  return applyNullInsertThreshold({ frame: copy });
};

function eventsIn(frames) {
  return frames.flatMap((frame) => {
    const column = Object.fromEntries(frame.fields.map((field) => [field.name, field.values]));
    return Array.from({ length: frame.length }, (_, row) =>
      Object.fromEntries(Object.entries(column).map(([name, values]) => [name, values[row]])));
  });
}

/** A line where an event begins and, for one that lasts, a band to where it ends. */
function Marks({ builder, events }) {
  const theme = useTheme2();
  const latest = useRef(events);
  const plot = useRef(null);
  latest.current = events;
  useLayoutEffect(() => {
    builder.addHook("init", (u) => { plot.current = u; });
    builder.addHook("draw", (u) => latest.current.forEach((event) => mark(u, event, theme)));
  }, [builder, theme]);
  useEffect(() => plot.current?.redraw(), [events]);
  return null;
}

function mark(u, event, theme) {
  const color = theme.visualization.getColorByName(event.color ?? "red");
  const { left, top, width, height } = u.bbox;
  const place = (time) => Math.min(Math.max(u.valToPos(time, "x", true), left), left + width);
  if (event.timeEnd < u.scales.x.min || event.time > u.scales.x.max) {
    return;
  }
  const from = place(event.time);
  u.ctx.save();
  u.ctx.fillStyle = u.ctx.strokeStyle = color;
  u.ctx.globalAlpha = 0.12;
  u.ctx.fillRect(from, top, place(event.timeEnd) - from, height);
  u.ctx.globalAlpha = 1;
  u.ctx.setLineDash([4, 4]);
  u.ctx.beginPath();
  u.ctx.moveTo(from, top);
  u.ctx.lineTo(from, top + height);
  u.ctx.stroke();
  u.ctx.beginPath();
  u.ctx.moveTo(from - 5, top + height + 6);
  u.ctx.lineTo(from, top + height);
  u.ctx.lineTo(from + 5, top + height + 6);
  u.ctx.fill();
  u.ctx.restore();
}
