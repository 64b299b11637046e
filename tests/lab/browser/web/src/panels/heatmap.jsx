// A stand-in for the heatmap panel, which Grafana publishes no component of: rows of buckets over time.
import { colorManipulator, FieldType, getFieldDisplayName } from "@grafana/data";
import { useTheme2 } from "@grafana/ui";

import { Drawn, NoValue } from "./drawn.jsx";

export function Heatmap({ data, fieldConfig, width, height, timeRange }) {
  const theme = useTheme2();
  const rows = data.series.flatMap((frame) => frame.fields
    .filter((field) => field.type === FieldType.number)
    .map((field) => ({ name: getFieldDisplayName(field, frame, data.series), times: frame.fields[0].values, values: field.values })));
  const most = Math.max(...rows.flatMap((row) => row.values), 0);
  if (rows.length === 0) {
    return <NoValue fieldConfig={fieldConfig} width={width} height={height} />;
  }
  const [from, span] = [timeRange.from.valueOf(), timeRange.to - timeRange.from];
  const thick = height / rows.length;
  const colored = (value) => colorManipulator.alpha(theme.visualization.getColorByName("orange"), most ? value / most : 0);
  return (
    <Drawn count={rows.length}>
      <svg width={width} height={height}>
        {rows.map((row, index) => row.times.map((time, at) => (
          <rect
            key={`${index}-${at}`}
            x={((time - from) / span) * width}
            y={height - (index + 1) * thick}
            width={width / Math.max(row.times.length, 1)}
            height={thick - 1}
            fill={colored(row.values[at])}
          />
        )))}
        {rows.map((row, index) => (
          <text key={index} x={4} y={height - index * thick - thick / 3} fill={theme.colors.text.primary} fontSize={11}>{row.name}</text>
        ))}
      </svg>
    </Drawn>
  );
}
