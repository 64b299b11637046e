// Stat and bar gauge: Grafana's components for one value, repeated as its panels repeat them.
import { getDisplayValueAlignmentFactors, getFieldDisplayValues } from "@grafana/data";
import { BarGauge, BigValue, DataLinksContextMenu, useTheme2, VizRepeater } from "@grafana/ui";

import { Drawn } from "./drawn.jsx";

export function Stat(props) {
  const { options } = props;
  return (
    <Values {...props} sparkline={options.graphMode !== "none"} spacing={3} autoGrid>
      {({ value, alignmentFactors, count, ...size }, link) => (
        <BigValue
          {...size}
          {...link}
          value={value.display}
          count={count}
          sparkline={value.sparkline}
          alignmentFactors={alignmentFactors}
          colorMode={options.colorMode ?? "value"}
          graphMode={options.graphMode ?? "area"}
          justifyMode={options.justifyMode ?? "auto"}
          textMode={options.textMode ?? "auto"}
          wideLayout={options.wideLayout ?? true}
          text={options.text}
        />
      )}
    </Values>
  );
}

export function Bars(props) {
  const { options } = props;
  return (
    <Values {...props} spacing={8} minVizHeight={options.minVizHeight ?? 16} minVizWidth={options.minVizWidth ?? 8}>
      {({ value, alignmentFactors, orientation, ...size }, link) => (
        <BarGauge
          {...size}
          {...link}
          value={value.display}
          field={value.field}
          display={value.view?.getFieldDisplayProcessor(value.colIndex ?? 0)}
          text={options.text}
          itemSpacing={8}
          lcdCellWidth={12}
          orientation={orientation}
          alignmentFactors={alignmentFactors}
          displayMode={options.displayMode ?? "gradient"}
          valueDisplayMode={options.valueMode ?? "color"}
          namePlacement={options.namePlacement ?? "auto"}
          showUnfilled={options.showUnfilled ?? true}
        />
      )}
    </Values>
  );
}

function Values({ data, options, fieldConfig, replaceVariables, timeZone, sparkline, spacing, children, ...rest }) {
  const theme = useTheme2();
  const reduceOptions = { calcs: ["lastNotNull"], ...options.reduceOptions };
  const getValues = () =>
    getFieldDisplayValues({ fieldConfig, reduceOptions, replaceVariables, theme, data: data.series, sparkline, timeZone });
  const found = data.series.some((frame) => frame.length > 0) ? getValues().length : 0;
  const draw = ({ value, ...one }) => {
    const all = { ...one, value, theme };
    if (!value.hasLinks || !value.getLinks) {
      return children(all, {});
    }
    return (
      <DataLinksContextMenu links={value.getLinks} style={{ flexGrow: 1 }}>
        {({ openMenu, targetClassName }) => children(all, { onClick: openMenu, className: targetClassName, hasLinks: true })}
      </DataLinksContextMenu>
    );
  };
  return (
    <Drawn count={found}>
      <VizRepeater
        {...rest}
        getValues={getValues}
        getAlignmentFactors={getDisplayValueAlignmentFactors}
        renderValue={draw}
        itemSpacing={spacing}
        source={data}
        orientation={options.orientation ?? "auto"}
      />
    </Drawn>
  );
}
