"""A real Prometheus and promtool, built once per machine from their Go module, on loopback."""

import json
import subprocess
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.cluster.build import Recipe
from tests.lab.served_program import ServedProgram


def _recipe(version: str, folder: str, *flags: str) -> Recipe:
    module = "github.com/prometheus/prometheus/cmd"
    programs = ("prometheus", "promtool")
    stamp = f"-s -w -X github.com/prometheus/common/version.Version={version}"
    return Recipe(
        name=folder,
        title=f"Prometheus {version}",
        what=f"Prometheus {version} and promtool from their Go module",
        sources=Path(__file__).parent / "go" / folder,
        packages=tuple(f"{module}/{program}" for program in programs),
        programs=programs,
        flags=("-trimpath", "-ldflags", stamp, *flags),
    )


RECIPE = _recipe("3.15.0", "prometheus", "-tags", "remove_all_sd,enable_kubernetes_sd")
"""Without the libraries of thirty clouds, which only service discovery uses."""
RECIPE_2_42 = _recipe("2.42.0", "prometheus-2.42")
"""The oldest that what we ship is for: Debian 12's, and the first that knows `keep_firing_for`."""


class Prometheus(ServedProgram):
    """One server that scrapes the given pages; ends with the block."""

    def __init__(
        self,
        programs: Path,
        folder: Path,
        targets: dict[str, str],
        *,
        port: int,
        interval: str = "1s",
        protocols: tuple[str, ...] = (),
        labels: Mapping[str, str] | None = None,
        rules: Sequence[Path] = (),
        flags: Sequence[str] = (),
    ) -> None:
        """`targets` is job name to host:port; `protocols` are Prometheus' scrape protocols.

        `labels` are put on every series that is scraped, `rules` are rule files, `flags` are more
        of the server's own.
        """
        config = folder / "prometheus.json"
        arguments = (
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            *flags,
        )
        super().__init__(programs / "prometheus", folder, arguments, port=port)
        times = {"scrape_interval": interval, "evaluation_interval": interval}
        jobs = [_job(job, target, protocols, labels or {}) for job, target in targets.items()]
        plain = {"global": times, "rule_files": [str(path) for path in rules]}
        config.write_text(json.dumps({**plain, "scrape_configs": jobs}), encoding="utf-8")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an instant query, each with `metric` and `value`."""
        return self._get("query", query=expression)["result"]

    def rules(self) -> list[dict[str, Any]]:
        """Return every rule that is evaluated, with `health`, `lastError` and, of alerts, `state`.

        A rule that was not evaluated yet has the health `unknown`.
        """
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        """Return the active targets, with `health` and `lastError`."""
        return self._get("targets", state="active")["activeTargets"]

    def _get(self, path: str, **parameters: str) -> dict[str, Any]:
        query = urllib.parse.urlencode(parameters)
        return json.loads(self.ask(f"/api/v1/{path}?{query}"))["data"]


def _job(
    name: str, target: str, protocols: tuple[str, ...], labels: Mapping[str, str]
) -> dict[str, Any]:
    static = {"targets": [target], "labels": dict(labels)}
    # As the chart's monitors: what we say of a claim's namespace is not the scraper's to rename.
    job: dict[str, Any] = {"job_name": name, "honor_labels": True, "static_configs": [static]}
    if protocols:
        job["scrape_protocols"] = list(protocols)
    return job


def check_metrics(programs: Path, page: bytes) -> str:
    """Return what `promtool check metrics` has against a page, "" for nothing."""
    done = subprocess.run(
        [programs / "promtool", "check", "metrics"], input=page, capture_output=True, check=False
    )
    return (done.stdout + done.stderr).decode() if done.returncode else ""
