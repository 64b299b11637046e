// How a panel says what it drew, for those who look at the page: data-drawn is a number of things, 0 is noValue.
export function Drawn({ count, children }) {
  return <div data-drawn={count}>{children}</div>;
}

export function NoValue({ fieldConfig, width, height }) {
  const style = { width, height, display: "flex", alignItems: "center", justifyContent: "center", textAlign: "center" };
  return (
    <div data-drawn={0} style={style}>
      {fieldConfig.defaults.noValue || "No data"}
    </div>
  );
}
