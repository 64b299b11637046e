// Stand-ins for state-timeline and status-history, which Grafana publishes no component of.
//
// Rows, texts and colours come out of Grafana's own field processing; only the drawing is ours.
import { FieldType, dateTimeFormat, getFieldDisplayName } from "@grafana/data";
import { useTheme2, VizLegend } from "@grafana/ui";

import { Drawn, NoValue } from "./drawn.jsx";

const AXIS = 22;
const LEGEND = 26;
const NAMES = 0.22;
const PAGE = 20; // rows, unless a dashboard says otherwise; more are on the next page

export const StateTimeline = (props) => <States {...props} merge={props.options.mergeValues !== false} />;
export const StatusHistory = (props) => <States {...props} merge={false} gap={1} />;

function States({ data, options, fieldConfig, width, height, timeRange, timeZone, merge, gap = 0 }) {
  const theme = useTheme2();
  const all = data.series.flatMap((frame) => rowsOf(frame, data.series, timeRange, merge));
  const rows = all.slice(0, options.perPage ?? PAGE);
  if (rows.length === 0) {
    return <NoValue fieldConfig={fieldConfig} width={width} height={height} />;
  }
  const legend = options.legend?.showLegend === false ? [] : legendOf(rows);
  const names = Math.min(Math.max(...rows.map((row) => row.name.length * 7)) + 12, width * NAMES * 2);
  const space = (height - AXIS - (legend.length ? LEGEND : 0)) / rows.length;
  const thick = space * (options.rowHeight ?? 0.9);
  return (
    <Drawn count={rows.length}>
      <div style={{ position: "relative", width, height, fontSize: theme.typography.bodySmall.fontSize, overflow: "hidden" }}>
        {rows.map((row, index) => (
          <div key={index} data-row={row.name} style={{ position: "absolute", top: index * space, height: thick, left: 0, right: 0 }}>
            <div title={row.name} style={{ width: names - 8, ...oneLine, textAlign: "right", lineHeight: `${thick}px` }}>{row.name}</div>
            {row.spans.map((span, at) => (
              <Span key={at} {...span} left={names} width={width - names} thick={thick} gap={gap} options={options} theme={theme} />
            ))}
          </div>
        ))}
        <Axis top={rows.length * space} left={names} width={width - names} range={timeRange} timeZone={timeZone} theme={theme} />
        {legend.length > 0 && (
          <div style={{ position: "absolute", bottom: 0 }}><VizLegend items={legend} placement="bottom" displayMode="list" /></div>
        )}
      </div>
    </Drawn>
  );
}

const oneLine = { whiteSpace: "nowrap", overflow: "hidden", textOverflow: "ellipsis" };

function Span({ from, to, text, color, left, width, thick, gap, options, theme }) {
  const wide = (to - from) * width;
  const shown = options.showValue !== "never" && wide > (options.showValue === "always" ? 0 : text.length * 7 + 6);
  return (
    <div
      data-state={text}
      data-color={color}
      title={text}
      style={{
        position: "absolute", top: 0, height: thick, left: left + from * width, width: Math.max(wide - gap, 1),
        background: color, color: theme.colors.getContrastText(color), lineHeight: `${thick}px`, paddingLeft: shown ? 4 : 0, ...oneLine,
      }}
    >
      {shown ? text : ""}
    </div>
  );
}

function Axis({ top, left, width, range, timeZone, theme }) {
  const [from, to] = [range.from.valueOf(), range.to.valueOf()];
  const count = Math.max(2, Math.floor(width / 110));
  const format = to - from > 864e5 ? "MM-DD HH:mm" : "HH:mm";
  return Array.from({ length: count }, (_, index) => from + ((index + 0.5) * (to - from)) / count).map((at) => (
    <div key={at} style={{ position: "absolute", top: top + 3, left: left + ((at - from) / (to - from)) * width - 20, color: theme.colors.text.secondary }}>
      {dateTimeFormat(at, { format, timeZone })}
    </div>
  ));
}

function rowsOf(frame, frames, range, merge) {
  const time = frame.fields.find((field) => field.type === FieldType.time);
  const [from, to] = [range.from.valueOf(), range.to.valueOf()];
  const step = time?.config.interval ?? Infinity;
  return frame.fields
    .filter((field) => time && field.type !== FieldType.time && !field.config.custom?.hideFrom?.viz)
    .map((field) => ({ name: getFieldDisplayName(field, frame, frames), field, spans: spansOf(time.values, field, { step, to, merge }) }))
    .map((row) => ({
      ...row,
      spans: row.spans.map((one) => ({ ...one, from: Math.max(0, (one.from - from) / (to - from)), to: Math.min(1, (one.to - from) / (to - from)) })),
    }));
}

/** A value lasts until the next sample, or one step where the next one is missing: a hole stays a hole. */
function spansOf(times, field, { step, to, merge }) {
  const found = [];
  times.forEach((at, index) => {
    const value = field.values[index];
    const until = Math.min(times[index + 1] ?? to, at + step, to);
    const last = found.at(-1);
    if (value === null || value === undefined) {
      return;
    }
    if (merge && last?.value === value && last.to >= at) {
      last.to = until;
      return;
    }
    const { text, prefix = "", suffix = "", color } = field.display(value);
    found.push({ value, text: `${prefix}${text}${suffix}`, color, from: at, to: until });
  });
  return found;
}

function legendOf(rows) {
  const byText = new Map(rows.flatMap((row) => row.spans).map((span) => [span.text, span.color]));
  return [...byText].map(([label, color]) => ({ label, color, yAxis: 1 }));
}
