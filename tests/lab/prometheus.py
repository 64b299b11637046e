"""A real Prometheus and promtool, built once per machine from their Go module, on loopback."""

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from simulator.cluster.build import Recipe

RECIPE = Recipe(
    name="prometheus",
    title="Prometheus",
    what="Prometheus 3.15.0 and promtool from their Go module; about 4 minutes",
    sources=Path(__file__).parent / "go" / "prometheus",
    packages=(
        "github.com/prometheus/prometheus/cmd/prometheus",
        "github.com/prometheus/prometheus/cmd/promtool",
    ),
    programs=("prometheus", "promtool"),
    flags=(
        "-trimpath",
        "-ldflags",
        "-s -w -X github.com/prometheus/common/version.Version=3.15.0",
    ),
)
_START_SECONDS = 30.0
_ASK_SECONDS = 10.0


class Prometheus:
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
    ) -> None:
        """`targets` is job name to host:port; `protocols` are Prometheus' scrape protocols.

        `labels` are put on every series that is scraped, `rules` are rule files.
        """
        self._programs = programs
        self._folder = folder
        self._address = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "prometheus.json").write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": interval, "evaluation_interval": interval},
                    "rule_files": [str(path) for path in rules],
                    "scrape_configs": [
                        _job(job, target, protocols, labels or {})
                        for job, target in targets.items()
                    ],
                }
            ),
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        log = self._folder / "prometheus.log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [
                    self._programs / "prometheus",
                    f"--config.file={self._folder / 'prometheus.json'}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address={self._address}",
                ],
                stdout=out,
                stderr=out,
            )
        end = time.monotonic() + _START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"Prometheus does not start: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

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
        url = f"http://{self._address}/api/v1/{path}?{query}"
        with urllib.request.urlopen(url, timeout=_ASK_SECONDS) as answer:
            return json.load(answer)["data"]

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False


def _job(
    name: str, target: str, protocols: tuple[str, ...], labels: Mapping[str, str]
) -> dict[str, Any]:
    static = {"targets": [target], "labels": dict(labels)}
    # As the chart's monitors: what we say of a claim's namespace is not the scraper's to rename.
    job: dict[str, Any] = {"job_name": name, "honor_labels": True, "static_configs": [static]}
    if protocols:
        job["scrape_protocols"] = list(protocols)
    return job


def version(programs: Path) -> str:
    """Return what the server says of itself, in one line."""
    command = [programs / "prometheus", "--version"]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return said.splitlines()[0]


def check_metrics(programs: Path, page: bytes) -> str:
    """Return what `promtool check metrics` has against a page, "" for nothing."""
    done = subprocess.run(
        [programs / "promtool", "check", "metrics"], input=page, capture_output=True, check=False
    )
    return (done.stdout + done.stderr).decode() if done.returncode else ""
