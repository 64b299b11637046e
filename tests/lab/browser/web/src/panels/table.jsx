// The table panel around Grafana's own table.
import { cacheFieldDisplayNames } from "@grafana/data";
import { useTheme2 } from "@grafana/ui";
import { TableNG } from "@grafana/ui/unstable";

import { Drawn, NoValue } from "./drawn.jsx";

export function TableOfFrames({ data, options, fieldConfig, width, height, timeRange, replaceVariables }) {
  const theme = useTheme2();
  const frame = data.series[options.frameIndex ?? 0];
  if (!frame?.fields.length || frame.length === 0) {
    return <NoValue fieldConfig={fieldConfig} width={width} height={height} />;
  }
  cacheFieldDisplayNames(data.series);
  return (
    <Drawn count={frame.length}>
      <TableNG
        theme={theme}
        width={width}
        height={height}
        data={frame}
        noHeader={options.showHeader === false}
        showTypeIcons={options.showTypeIcons}
        resizable
        sortBy={options.sortBy}
        footerOptions={options.footer}
        enablePagination={options.enablePagination}
        cellHeight={options.cellHeight}
        frozenColumns={options.frozenColumns?.left}
        timeRange={timeRange}
        fieldConfig={fieldConfig}
        getActions={() => []}
        replaceVariables={replaceVariables}
        structureRev={data.structureRev}
      />
    </Drawn>
  );
}
