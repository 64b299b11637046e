"""What Kubernetes' own code answers: a small Go program that reads and writes lines of JSON."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from simulator.cluster.build import STRIPPED, Recipe

RECIPE = Recipe(
    name="dra-oracle",
    title="the oracle of selectors and allocations",
    what="k8s.io/dynamic-resource-allocation v0.37.1 behind a small program",
    sources=Path(__file__).parent / "go" / "dra-oracle",
    programs=("dra-oracle",),
    flags=(*STRIPPED, "-ldflags", "-s -w"),
)
Json = dict[str, Any]
PATIENCE = 300.0


def answers(programs: Path, questions: Iterable[Json]) -> list[Json]:
    """Return an answer for each question, in their order."""
    return _replies([programs / "dra-oracle"], questions)


def allocations(programs: Path, clusters: Iterable[Json]) -> list[Json]:
    """Return for each cluster what is allocated on its nodes, and each device alone."""
    return _replies([programs / "dra-oracle", "allocate"], clusters)


def _replies(command: list[Path | str], lines: Iterable[Json]) -> list[Json]:
    done = subprocess.run(
        command,
        input="".join(f"{json.dumps(line)}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
