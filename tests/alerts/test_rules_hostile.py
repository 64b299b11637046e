"""Label values of users reach the notification unchanged: nothing in them is executed."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from alerts.__main__ import FOLDER
from tests.lab import promtool

RULES = FOLDER / "draguard.rules.yaml"
VALUES = {
    "quotes": """say "yes" or 'no' or `so`""",
    "braces": '{{ $labels.node }} {{ "up" | query }} {a="b"} }}',
    "newlines": "one\ntwo\r\nthree",
    "html": "<script>alert(1)</script>&amp;<b>bold</b>",
    "promql": '"} or vector(1) or up{job="',
    "patterns": r"$1 ${node} %s %[9]q .* [a-z] \d \\ C:\path",
    "letters": "Grafikprozessor größer, 显卡, 🙂",
    "4 KiB": "x" * 4096,
}
each_value = pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
releases = pytest.mark.parametrize("release", promtool.RELEASES)


def sample(name: str, labels: dict[str, str], values: str) -> dict[str, str]:
    """Write a series for promtool's tests; strings are escaped as in JSON."""
    stated = ",".join(
        f"{key}={json.dumps(text, ensure_ascii=False)}" for key, text in labels.items()
    )
    return {"series": f"{name}{{{stated}}}", "values": values}


def run(
    programs: Path, folder: Path, series: list[dict[str, str]], alert: str, expected: dict[str, Any]
) -> str:
    case = {"eval_time": "20m", "alertname": alert, "exp_alerts": [expected]}
    test = {"interval": "30s", "input_series": series, "alert_rule_test": [case]}
    file = folder / "case.yaml"
    document = {"rule_files": [str(RULES)], "evaluation_interval": "30s", "tests": [test]}
    file.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return promtool.run_tests(programs, file)


@releases
@each_value
def test_names_of_a_device_its_node_and_its_pods_stay_what_they_are(
    release: str, value: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    programs: Path = request.getfixturevalue(release)
    gpu = {"cluster": value, "Hostname": value, "UUID": value}
    claim = {"dra_claim_namespace": value, "dra_claim_name": value, "pod": value}
    named = {"model_name": value, "gpu": "0", "pci_bus_id": value}
    series = [
        sample("draguard_gpu_up", {**gpu, "reason": value, "instance": value}, "0x60"),
        sample("draguard_gpu_info", {**gpu, **named}, "1x60"),
        sample("draguard_device_allocation_info", {**gpu, **claim}, "1x60"),
    ]
    address = quote_plus(value)
    expected = {
        "exp_labels": {"severity": "critical", "cluster": value, "node": value, "UUID": value},
        "exp_annotations": {
            "summary": "A GPU no longer answers.",
            "description": f"The GPU is lost or hangs, reason {value}: no XID known.",
            "gpu": f"{value}, index 0, PCI {value}, {value} on node {value}",
            "hit": f"claim {value}/{value} of pod {value}",
            "done": "Nothing: this GPU has no incident.",
            "next": f"If it is not tainted: `draguard cordon`, or cordon node {value}. Check "
            "`dmesg` there. Reset the GPU, or drain and reboot the node. If the GPU is lost again, "
            "replace it.",
            "runbook_url": "https://draguard.example.com/runbooks/DraguardGpuGone.md",
            "dashboard_url": "https://grafana.example.com/d/draguard-device"
            f"?var-uuid={address}&var-cluster={address}&var-node={address}",
        },
    }

    assert run(programs, tmp_path, series, "DraguardGpuGone", expected) == ""


@releases
@each_value
def test_words_of_an_incident_stay_what_they_are(
    release: str, value: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    programs: Path = request.getfixturevalue(release)
    device = {"cluster": "east", "node": "node-1", "UUID": "GPU-1"}
    incident = {**device, "incident": value}
    fault = {"class": "gpu", "cause": value, "scope": value}
    series = [
        sample("draguard_incident_info", {**incident, **fault}, "1x60"),
        sample("draguard_incident_phase", {**incident, "phase": value}, "1x60"),
        sample("draguard_incident_mode", {**incident, "mode": value}, "1x60"),
        sample("draguard_incident_deferred", {**incident, "reason": value}, "1x60"),
    ]
    expected = {
        "exp_labels": {"severity": "critical", **device},
        "exp_annotations": {
            "summary": "A faulty GPU is not tainted and stays schedulable.",
            "description": f"The GPU has a fault of class gpu, cause {value}, scope {value}, and "
            f"is not tainted. The policy's mode is {value}. Deferred by {value}.",
            "gpu": "unknown: no exporter shows it, GPU-1 on node node-1",
            "hit": "none known to Draguard",
            "done": f"Incident {value} is {value}. Taint rules: none.",
            "next": "Keep new pods away: `draguard cordon`, or a higher mode of its class in the "
            "policy; without DeviceTaintRules, cordon node node-1. Then drain and repair it.",
            "runbook_url": "https://draguard.example.com/runbooks/DraguardDeviceNotTainted.md",
            "dashboard_url": "https://grafana.example.com/d/draguard-remediation"
            "?var-cluster=east&var-node=node-1",
        },
    }

    assert run(programs, tmp_path, series, "DraguardDeviceNotTainted", expected) == ""


@releases
@each_value
def test_names_of_a_claim_and_its_pod_stay_what_they_are(
    release: str, value: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    programs: Path = request.getfixturevalue(release)
    claim = {"cluster": value, "dra_claim_namespace": value, "dra_claim_name": value}
    waits = {"pod_name": value, "pod_claim": value, "state": "Pending", "reason": "NoDevices"}
    series = [sample("draguard_claim_since_timestamp_seconds", {**claim, **waits}, "0x60")]
    address = quote_plus(value)
    expected = {
        "exp_labels": {"severity": "warning", **claim},
        "exp_annotations": {
            "summary": "A claim cannot be allocated until something is changed.",
            "description": f"Claim {value}/{value} has been pending for 20m 0s, reason NoDevices.",
            "hit": f"pod {value}/{value} (its claim {value})",
            "next": "`draguard why POD -n NAMESPACE` says what keeps each device away, and what "
            "would help.",
            "runbook_url": "https://draguard.example.com/runbooks/"
            "DraguardClaimCannotBeAllocated.md",
            "dashboard_url": "https://grafana.example.com/d/draguard-claim"
            f"?var-namespace={address}&var-cluster={address}&var-claim={address}",
        },
    }

    assert run(programs, tmp_path, series, "DraguardClaimCannotBeAllocated", expected) == ""
