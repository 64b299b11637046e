// What Grafana's server writes into its page; the libraries read it while they load, so this comes first.
window.__grafana_public_path__ = "/public/";
window.grafanaBootData = {
  settings: { appSubUrl: "", buildInfo: { version: "13.1.1", commit: "", env: "production" }, featureToggles: {} },
  user: { locale: "en-US", language: "en-US", timezone: "utc", theme: "dark", lightTheme: false },
  navTree: [],
};
