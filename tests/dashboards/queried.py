"""An expression run over made-up series, by the real promtool."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from dashboards.panel import Dashboard
from tests.dashboards.promql_reading import substituted

STEP = 30
"""Seconds between the values of a series."""
ALWAYS = "1x400"


def assert_answers(
    programs: Path,
    dashboard: Dashboard,
    expr: str,
    series: Mapping[str, str],
    expected: Mapping[str, float],
    *,
    at: str = "10m",
) -> None:
    """Evaluate an expression `at` a time; series are in promtool's notation, one value per STEP.

    `expected` maps the labels of an answer, such as `{UUID="GPU-1"}`, to its value.
    """
    requested = {
        "expr": substituted(expr, dashboard),
        "eval_time": at,
        "exp_samples": [{"labels": labels, "value": value} for labels, value in expected.items()],
    }
    given = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": f"{STEP}s", "input_series": given, "promql_expr_test": [requested]}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "asked.json"
        path.write_text(json.dumps({"evaluation_interval": f"{STEP}s", "tests": [test]}))
        done = subprocess.run(
            [programs / "promtool", "test", "rules", path],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
