// Stand-ins for what Grafana's core draws in the heads of dashboards and panels: links, names of annotations.
import { ControlsLabel, sceneGraph } from "@grafana/scenes";
import { LinkButton } from "@grafana/ui";

export function Title({ dashboard, dashboards, scene }) {
  return (
    <header className="page-head">
      <h1>{dashboard.title}</h1>
      <DashboardLinks links={dashboard.links ?? []} dashboards={dashboards} scene={scene} />
    </header>
  );
}

export const NextLine = () => <div style={{ flexBasis: "100%" }} />;

function DashboardLinks({ links, dashboards, scene }) {
  scene.state.$variables.state.variables.forEach((one) => one.useState()); // draw again when one is chosen
  const shown = links.flatMap((link) => (link.type === "dashboards" ? tagged(link, dashboards) : [link]));
  return (
    <nav className="page-links">
      {shown.map((link) => (
        <LinkButton key={link.title} href={hrefOf(link, scene)} tooltip={link.tooltip} variant="secondary" size="md" fill="outline">
          {link.title}
        </LinkButton>
      ))}
    </nav>
  );
}

/** A switch for each annotation query. */
export function LayerSwitches({ set }) {
  const { layers } = set.useState();
  return layers.filter((one) => !one.state.isHidden).map((one) => (
    <div key={one.state.key} style={{ display: "inline-flex", marginRight: 8 }}>
      <ControlsLabel htmlFor={`data-layer-${one.state.key}`} label={one.state.name} />
      <one.Component model={one} />
    </div>
  ));
}

export function PanelLinks({ links, panel }) {
  return links.map((link) => (
    <LinkButton key={link.title} href={hrefOf(link, panel)} variant="secondary" size="sm" fill="text" icon="external-link-alt">
      {sceneGraph.interpolate(panel, link.title)}
    </LinkButton>
  ));
}

function tagged(link, dashboards) {
  return dashboards
    .filter((one) => link.tags.every((tag) => one.tags.includes(tag)) && !window.location.pathname.startsWith(`/d/${one.uid}`))
    .map((one) => ({ ...link, title: one.title, url: `/d/${one.uid}` }));
}

function hrefOf(link, object) {
  const more = [link.includeVars && "${__all_variables}", link.keepTime && "${__url_time_range}"].filter(Boolean).join("&");
  const joined = more ? `${link.url}${link.url.includes("?") ? "&" : "?"}${more}` : link.url;
  return sceneGraph.interpolate(object, joined);
}
