"""Without Draguard, GPUs or a remediator, no alert fires for the missing part."""

import json
from pathlib import Path
from typing import Any

import pytest

from alerts.__main__ import FOLDER
from alerts.table import alerts
from tests.lab import promtool

RULES = FOLDER / "draguard.rules.yaml"
TIMES = ("1m", "20m", "25m", "26m", "1h10m", "2h20m")
Series = tuple[tuple[str, str], ...]

PAGE = 'cluster="east",node="node-1",job="draguard/exporter",instance="10.0.0.1:9400"'
REPLICA = 'cluster="east",job="draguard/remediator",instance="10.0.1.1:9401"'
GPU = 'cluster="east",Hostname="node-1",UUID="GPU-1",pci_bus_id="00000000:18:00.0"'

NO_DRAGUARD: Series = (
    ('up{job="node-exporter",instance="10.0.0.1:9100"}', "0x400"),
    ('up{job="dcgm-exporter",instance="10.0.0.1:9400"}', "1x10 0x400"),
    ('DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname="node-1"}', "79x400"),
    ('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",Hostname="node-1"}', "0x400"),
)
NO_GPUS: Series = (
    (f"up{{{PAGE}}}", "1x400"),
    (f'draguard_exporter_build_info{{{PAGE},version="1"}}', "1x400"),
    (f'draguard_gpus_expected{{{PAGE},source="pci"}}', "0x400"),
    (f'draguard_source_up{{{PAGE},source="nvml",reason="LibraryNotFound"}}', "0x400"),
    (f'draguard_source_up{{{PAGE},source="resourceslices",reason="NotServed"}}', "0x400"),
    (f"draguard_snapshot_timestamp_seconds{{{PAGE}}}", "0x400"),
    (f"up{{{REPLICA}}}", "1x60 0x400"),
    (f'draguard_remediator_build_info{{{REPLICA},version="1"}}', "1x60 stale"),
    (f"draguard_remediator_leader{{{REPLICA}}}", "0x60 stale"),
    (f"draguard_remediator_rules_served{{{REPLICA}}}", "0x60 stale"),
    (f"draguard_remediator_policy_file_bad{{{REPLICA}}}", "1x60 stale"),
    (f'draguard_remediator_policy_mode{{{REPLICA},class="gpu",mode="enforce"}}', "1x60 stale"),
    (f'draguard_remediator_watch_age_seconds{{{REPLICA},collection="pods"}}', "900x60 stale"),
)
HEALTHY: Series = (
    (f"up{{{PAGE}}}", "1x400"),
    (f'draguard_exporter_build_info{{{PAGE},version="1"}}', "1x400"),
    (f'draguard_gpus_expected{{{PAGE},source="pci"}}', "1x400"),
    (f'draguard_source_up{{{PAGE},source="nvml"}}', "1x400"),
    (f'draguard_source_up{{{PAGE},source="podresources",reason="Off"}}', "0x400"),
    (f"draguard_snapshot_timestamp_seconds{{{PAGE}}}", "0+30x400"),
    (f"draguard_gpu_up{{{GPU}}}", "1x400"),
    (f'draguard_gpu_info{{{GPU},gpu="0",presence="Present"}}', "1x400"),
    (f"draguard_gpu_recovery_action{{{GPU}}}", "0x400"),
    (f"draguard_gpu_row_remap_pending{{{GPU}}}", "0x400"),
    (f"draguard_gpu_row_remap_failure{{{GPU}}}", "0x400"),
    (f"draguard_gpu_sram_threshold_exceeded{{{GPU}}}", "0x400"),
    (f"draguard_fabric_health{{{GPU}}}", "1x400"),
    (f'draguard_gpu_ecc_aggregate_errors_total{{{GPU},severity="uncorrected"}}', "12x400"),
)
LONG_AGO: Series = tuple(
    line
    for code in (13, 31, 48, 63, 64, 74, 79, 94, 95, 119)
    for line in (
        (f'draguard_xid_errors_total{{{GPU},code="{code}"}}', "7x400"),
        (f'draguard_xid_last_seen_timestamp_seconds{{{GPU},code="{code}"}}', "-90000x400"),
    )
)
"""Errors of the day before, of a GPU whose driver reports no recovery action."""

_LEFT, _AWAY, _BACK = "x29 stale", "_x20", "x300"
"""Half minutes: the exporter leaves after a quarter of an hour, for ten minutes."""
DRIVER_UPGRADE: Series = (
    ('kube_node_info{cluster="east",node="node-1"}', "1x400"),
    ('kube_node_info{cluster="east",node="node-2"}', "1x400"),
    (f"up{{{PAGE.replace('node-1', 'node-2')}}}", "1x400"),
    (f'draguard_exporter_build_info{{{PAGE.replace("node-1", "node-2")},version="1"}}', "1x400"),
    (f"up{{{REPLICA}}}", "1x400"),
    (f"draguard_remediator_leader{{{REPLICA}}}", "1x400"),
    ('draguard_agent_stale{cluster="east",node="node-1"}', "0x34 1x16 0x300"),
    *(
        (name, f"{first}{_LEFT} {_AWAY} {again}{_BACK}")
        for name, first, again in (
            *((name, *[values.removesuffix("x400")] * 2) for name, values in HEALTHY[:4]),
            (HEALTHY[5][0], "0+30", "1530+30"),
            *((name, *[values.removesuffix("x400")] * 2) for name, values in HEALTHY[6:]),
        )
    ),
)
"""The exporter leaves the node with its series, and the remediator counts its agent as stale."""

EXPLAINER = 'cluster="east",job="draguard/explainer",instance="10.0.1.4:9403"'
STANDS_BY = 'cluster="east",job="draguard/explainer",instance="10.0.1.5:9403"'
_CLAIM = f'{EXPLAINER},dra_claim_namespace="team-a"'
_SINCE = "draguard_claim_since_timestamp_seconds"
NOBODY_WAITS: Series = (
    *((f"up{{{page}}}", "1x400") for page in (EXPLAINER, STANDS_BY)),
    (f'draguard_explainer_build_info{{{EXPLAINER},version="1"}}', "1x400"),
    (f"draguard_explainer_leader{{{EXPLAINER}}}", "1x400"),
    (f"draguard_explainer_leader{{{STANDS_BY}}}", "0x400"),
    (f'draguard_explainer_rows_dropped{{{EXPLAINER},family="claims"}}', "0x400"),
    (f'draguard_explainer_collection_untrusted{{{EXPLAINER},collection="pods"}}', "0x400"),
    (f"draguard_explainer_look_age_seconds{{{EXPLAINER}}}", "2x400"),
    (f"draguard_explainer_reason_age_seconds{{{EXPLAINER}}}", "30x400"),
    *(
        (f'{_SINCE}{{{_CLAIM},dra_claim_name="c",state="{state}",reason="{reason}"}}', "-90000x400")
        for state, reason in (
            ("Pending", "NoPod"),
            ("Binding", "SchedulingGated"),
            ("Preparing", "Starting"),
        )
    ),
)

QUIET = {
    "a driver upgrade of ten minutes, for which the exporter leaves the node": DRIVER_UPGRADE,
    "a cluster without Draguard": NO_DRAGUARD,
    "a cluster without GPUs, however broken its remediator is": NO_GPUS,
    "exporters without a remediator": HEALTHY,
    "a healthy explainer, and claims that nobody waits for": NOBODY_WAITS,
    "counters above 0 at the first scrape": (*HEALTHY, *LONG_AGO),
}
GONE: Series = (
    *((name, values) for name, values in HEALTHY if not name.startswith("draguard_gpu_up")),
    (f'draguard_gpu_up{{{GPU},reason="GpuIsLost"}}', "0x400"),
    (f'draguard_xid_last_seen_timestamp_seconds{{{GPU},code="79"}}', "0x400"),
)


def silent(programs: Path, folder: Path, series: Series, names: list[str]) -> str:
    """Return promtool's objections to these alerts never firing."""
    document: dict[str, Any] = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": "30s",
                "input_series": [{"series": name, "values": values} for name, values in series],
                "alert_rule_test": [
                    {"eval_time": time, "alertname": name, "exp_alerts": []}
                    for time in TIMES
                    for name in names
                ],
            }
        ],
    }
    file = folder / "case.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")
    return promtool.run_tests(programs, file)


@pytest.mark.parametrize("series", QUIET.values(), ids=QUIET)
def test_nothing_fires_but_the_watchdog(
    series: Series, prometheus_built: Path, tmp_path: Path
) -> None:
    names = [alert.name for alert in alerts() if alert.name != "DraguardWatchdog"]

    assert silent(prometheus_built, tmp_path, series, names) == ""


def test_exporters_alone_call_for_a_lost_gpu_and_not_for_a_remediator(
    prometheus_built: Path, tmp_path: Path
) -> None:
    others = [alert.name for alert in alerts() if alert.name not in FOR_A_LOST_GPU]

    assert silent(prometheus_built, tmp_path, GONE, others) == ""
    for name in FOR_A_LOST_GPU - {"DraguardWatchdog"}:
        stated = silent(prometheus_built, tmp_path, GONE, [name])
        assert f'alertname="{name}"' in stated, stated


FOR_A_LOST_GPU = {"DraguardGpuGone", "DraguardWatchdog"}
"""The recovery action stays 0 until the next reading; the GPU is lost all the same."""
