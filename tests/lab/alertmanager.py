"""A real Alertmanager and amtool, built once per machine from their Go module, on loopback."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from simulator.cluster.build import Recipe
from tests.lab.served import Served
from tests.lab.served_program import ServedProgram

RECIPE = Recipe(
    name="alertmanager",
    title="Alertmanager",
    what="Alertmanager 0.31.1 and amtool from their Go module",
    sources=Path(__file__).parent / "go" / "alertmanager",
    packages=(
        "github.com/prometheus/alertmanager/cmd/alertmanager",
        "github.com/prometheus/alertmanager/cmd/amtool",
    ),
    programs=("alertmanager", "amtool"),
    flags=(
        "-trimpath",
        "-ldflags",
        "-s -w -X github.com/prometheus/common/version.Version=0.31.1",
    ),
)
RECIPE_0_25 = Recipe(
    name="alertmanager-0.25",
    title="amtool 0.25",
    what="amtool 0.25.0 from its Go module",
    sources=Path(__file__).parent / "go" / "alertmanager-0.25",
    packages=("github.com/prometheus/alertmanager/cmd/amtool",),
    programs=("amtool",),
    flags=(
        "-trimpath",
        "-ldflags",
        "-s -w -X github.com/prometheus/common/version.Version=0.25.0",
    ),
)
"""The oldest that what we ship is for: Debian 12's."""
_ALERTS = "/api/v2/alerts"
Json = dict[str, Any]


class Alertmanager(ServedProgram):
    """One server under a configuration file; alone, without a cluster; ends with the block."""

    def __init__(self, programs: Path, folder: Path, config: Path, *, port: int) -> None:
        arguments = (
            f"--config.file={config}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.external-url=https://alertmanager.example.com",
            "--web.route-prefix=/",
            "--cluster.listen-address=",
        )
        super().__init__(programs / "alertmanager", folder, arguments, port=port)

    def alerts(self) -> list[Json]:
        """Return the firing alerts, each with `labels` and `status.inhibitedBy`."""
        return json.loads(self.ask(_ALERTS))

    def post(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        """Tell it of alerts as Prometheus does: `labels`, `annotations`, `startsAt`."""
        self.ask(_ALERTS, json.dumps(alerts).encode())

    def inhibitions(self) -> dict[str, tuple[str, ...]]:
        """Return by name of alert the names of those that inhibit it."""
        found = self.alerts()
        names = {alert["fingerprint"]: alert["labels"]["alertname"] for alert in found}
        return {
            alert["labels"]["alertname"]: tuple(
                names.get(by, by) for by in alert["status"]["inhibitedBy"]
            )
            for alert in found
        }


class Pager(Served):
    """Whoever is notified: takes every POST on loopback and keeps it; ends with the block."""

    def __init__(self) -> None:
        self._taken: list[tuple[str, Json]] = []
        taken = self._taken

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                taken.append((self.path, json.loads(body)))
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.port}"

    def taken(self, path: str) -> list[Json]:
        """Return what was posted to a path, oldest first."""
        return [body for where, body in list(self._taken) if where == path]


def rehearsed(shipped: Path, folder: Path, url: str, *, minute: float = 60.0) -> Path:
    """Return a copy of a configuration in which all that is sent goes to `url`.

    Each receiver that sends anything posts the webhook's JSON to `/<receiver>`, what it says on
    Slack to `/slack/<receiver>`, and on PagerDuty to `/pagerduty/<receiver>`. Routes, groups,
    inhibition and templates are the shipped ones; so are times, with a minute of `minute` seconds.
    """
    config = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    config["templates"] = [str(shipped.parent / template) for template in config["templates"]]
    _hasten(config["route"], minute)
    config["receivers"] = [_redirected(receiver, url) for receiver in config["receivers"]]
    copy = folder / "alertmanager.yml"
    copy.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return copy


def shortened(duration: str, minute: float) -> str:
    """Return a duration such as `10m` in milliseconds, with a minute of `minute` seconds."""
    number, unit = int(duration[:-1]), duration[-1]
    seconds = number * {"s": 1, "m": 60, "h": 3600}[unit]
    return f"{seconds * minute / 60 * 1000:.0f}ms"


def _hasten(route: Json, minute: float) -> None:
    for key in route.keys() & {"group_wait", "group_interval", "repeat_interval"}:
        route[key] = shortened(route[key], minute)
    for below in route.get("routes", []):
        _hasten(below, minute)


def _redirected(receiver: Json, url: str) -> Json:
    name = receiver["name"]
    if set(receiver) == {"name"}:
        return receiver
    slack = {"api_url": f"{url}/slack/{name}"}
    pagerduty = {"url": f"{url}/pagerduty/{name}", "routing_key": "of-nobody"}
    return {
        "name": name,
        "slack_configs": [_there(config, slack) for config in receiver.get("slack_configs", [])],
        "pagerduty_configs": [
            _there(config, pagerduty) for config in receiver.get("pagerduty_configs", [])
        ],
        "webhook_configs": [{"url": f"{url}/{name}", "send_resolved": True}],
    }


def _there(shipped: Json, address: Json) -> Json:
    """Return what is sent, with another address and no secret in a file."""
    return {key: value for key, value in shipped.items() if not key.endswith("_file")} | address


def amtool(programs: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the real amtool; the caller looks at the exit code."""
    return subprocess.run(
        [programs / "amtool", *arguments], capture_output=True, check=False, text=True, cwd="/"
    )


def rendered(programs: Path, file: Path, template: str, data: Json, folder: Path) -> str:
    """Return what amtool makes of a notification (the webhook's JSON) with one of the templates."""
    payload = folder / "notification.json"
    payload.write_text(json.dumps(data), encoding="utf-8")
    text = f'{{{{ template "{template}" . }}}}'
    given = (f"--template.glob={file}", f"--template.text={text}", f"--template.data={payload}")
    done = amtool(programs, "template", "render", *given)
    assert done.returncode == 0, done.stderr
    return done.stdout
