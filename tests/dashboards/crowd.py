"""One cluster as several Prometheus servers would store it: told once, twice, and in two minds.

Its pages are those that a real exporter printed, with holders and errors added, and those of two
replicas of the remediator. Each shape of the same story is a cluster of its own, so that one server
answers for all of them at one moment.
"""

import json
import re
import subprocess
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.lab.pictures_backfill import samples
from tests.lab.prometheus import Prometheus

RECORDED = Path(__file__).parents[1] / "golden" / "exporter" / "live" / "h100.text"
WHOLE = "GPU-7f8721c0-c3e3-5527-bc44-1943c373332a"
SLICED = "GPU-c4ccf97b-c725-5936-9d65-5fb78d7758de"
SICK = "GPU-fdbc2e3b-bb6f-53f7-9a06-dd88e1ff58f6"
NODE = "node-a"
TIMES = (*range(-5400, -600, 240), *range(-600, 1, 30))
"""Seconds before the end at which pages are read; what is idle has to be so for an hour."""
DIED = -1800
HELD = "GPU_I_PROFILE,GPU_I_ID,pod,container,dra_claim_name,dra_share_id"


def _holds(uuid: str, *values: str) -> str:
    labels = "".join(
        f',{name}="{value}"' for name, value in zip(HELD.split(","), values, strict=True)
    )
    ours = f'UUID="{uuid}",Hostname="{NODE}",namespace="team",dra_claim_namespace="team"{labels}'
    return f"""
draguard_device_allocation_info{{{ours},admin="false"}} 1
draguard_claim_memory_declared_bytes{{{ours}}} 8000
draguard_claim_memory_used_bytes{{{ours}}} 4000
draguard_pod_memory_used_bytes{{{ours}}} 4000
draguard_pod_sm_utilization_ratio{{{ours}}} 0.5
"""


def _xid(uuid: str, code: str, **more: str) -> str:
    labels = "".join(f',{name}="{value}"' for name, value in more.items())
    ours = f'UUID="{uuid}",Hostname="{NODE}",code="{code}"{labels}'
    return f"""
draguard_xid_errors_total{{{ours}}} 3
draguard_xid_last_seen_timestamp_seconds{{{ours}}} -45
draguard_xid_source_info{{{ours},source="kmsg"}} 1
draguard_xid_source_info{{{ours},source="nvml"}} 1
"""


EXPORTER = "\n".join(
    (
        re.sub(r" -$", " 1", RECORDED.read_text(encoding="utf-8"), flags=re.MULTILINE),
        _holds(WHOLE, "", "", "train-0", "main", "train", ""),
        _holds(WHOLE, "", "", "train-1", "main", "train", ""),
        _holds(SLICED, "1g.10gb", "5", "infer-5", "a", "infer-5", ""),
        _holds(SLICED, "1g.10gb", "6", "infer-6", "a", "infer-6", "one"),
        _holds(SLICED, "1g.10gb", "6", "infer-6", "a", "infer-6", "two"),
        _holds(SICK, "", "", "old-0", "main", "old", ""),
        _xid(SICK, "79"),
        _xid(SLICED, "94", gi="5", ci="0"),
        'draguard_source_up{source="report",reason="Refused"} 0',
        'draguard_source_up{source="dcgm",reason="Off"} 0',
        'draguard_gpu_missing{device="00000000:4A:00.0"} 1',
        f'draguard_source_hang_info{{gpu="2",UUID="{SICK}",call="nvmlDeviceGetTemperature"}} 1',
    )
)
"""What the exporter of the node says; a time below 0 is so long before the end."""


def _incident(name: str, uuid: str, phase: str, what: Mapping[str, str]) -> str:
    ours = f'incident="{name}",node="{NODE}",UUID="{uuid}"'
    hit = 'dra_claim_namespace="team",dra_claim_name="train",via="claim"'
    rest = 'cause="xid-79",scope="GPU"'
    return f"""
draguard_incident_info{{{ours},class="{what["class"]}",{rest}}} 1
draguard_incident_phase{{{ours},phase="{phase}"}} 1
draguard_incident_mode{{{ours},mode="{what["mode"]}"}} 1
draguard_incident_rules{{{ours},effect="None"}} 0
draguard_incident_rules{{{ours},effect="NoSchedule"}} 2
draguard_incident_rules{{{ours},effect="NoExecute"}} 1
draguard_incident_deferred{{{ours},reason="{what["reason"]}"}} 1
draguard_incident_eviction_blocked{{{ours},reason="{what["blocked"]}"}} 1
draguard_incident_needs{{{ours},needs="{what["needs"]}"}} 1
draguard_incident_consumer_info{{{ours},{hit},pod_name="train-0"}} 1
draguard_incident_consumer_info{{{ours},{hit},pod_name="train-1"}} 1
draguard_incident_opened_timestamp_seconds{{{ours}}} -900
draguard_incident_phase_since_timestamp_seconds{{{ours}}} -800
draguard_incident_recurrence{{{ours}}} 1
draguard_incident_evicted_pods{{{ours}}} 2
"""


BEFORE = {
    "class": "gpu",
    "mode": "dry-run",
    "reason": "Budget",
    "blocked": "DisruptionBudget",
    "needs": "gpu-reset",
}
AFTER = {
    "class": "lost",
    "mode": "enforce",
    "reason": "Correlation",
    "blocked": "PodsJoin",
    "needs": "node-reboot",
}
"""The same incident when more is known; a replica may be seconds late."""
POLICY = 'draguard_remediator_policy_mode{class="gpu",mode="dry-run"} 1'
_BUCKET = "draguard_remediator_reconcile_duration_seconds_bucket"
_TIMES = "\n".join(
    f'draguard_remediator_time_to_{what}_seconds_bucket{{class="gpu",le="{le}"}} 5'
    for what in ("taint", "drain", "repair")
    for le in ("60.0", "+Inf")
)


def remediator(leads: int, phase: str = "Tainted", what: Mapping[str, str] = BEFORE) -> str:
    """Return the page of a replica that tells this of an incident."""
    return f"""
draguard_remediator_leader {leads}
draguard_remediator_build_info{{version="1"}} 1
draguard_remediator_rules_served 1
draguard_remediator_rule_status_missing 1
draguard_remediator_policy_file_bad 0
{POLICY}
draguard_remediator_gpus{{verdict="healthy"}} {2 * leads}
draguard_remediator_gpus{{verdict="sick"}} {leads}
draguard_remediator_queue_age_seconds 3
draguard_remediator_watch_age_seconds{{collection="pods"}} 20
draguard_remediator_undecodable_objects 1
draguard_remediator_reconciles_total{{result="done"}} 5
draguard_remediator_steps_total{{step="CreateRule"}} 5
draguard_remediator_evictions_total{{result="granted"}} 5
draguard_remediator_api_requests_total{{verb="get",code="200"}} 5
draguard_remediator_timer_failures_total 1
{_BUCKET}{{le="0.1"}} 5
{_BUCKET}{{le="+Inf"}} 5
{_TIMES}
draguard_remediator_incidents_opened_total{{class="gpu"}} 5
draguard_remediator_incidents_closed_total{{class="gpu",result="Recovered"}} 5
draguard_remediator_pods_evicted_total{{class="gpu",by="NoExecute"}} 5
draguard_remediator_pods_spared_total{{class="contained",reason="NotInScope"}} 5
draguard_remediator_pods_deferred_total{{reason="Budget"}} 5
draguard_remediator_deferrals_total{{step="Eviction",reason="Budget"}} 5
draguard_budget_used_gpus{{budget="taint",ground="cluster"}} 3
draguard_budget_limit_gpus{{budget="taint",ground="cluster"}} 24
draguard_emergency_stop 1
draguard_maintenance_windows_open 1
draguard_correlation_in_force{{reason="SameCause"}} 1
draguard_incidents_omitted 1
draguard_agent_stale{{node="{NODE}"}} 0
draguard_agent_stale{{node="node-z"}} 1
draguard_devices{{driver="gpu.nvidia.com",type="gpu",product="H100",state="free",taint="none"}} 1
draguard_devices{{driver="gpu.nvidia.com",type="gpu",product="H100",state="allocated",taint="none"}} 1
draguard_devices{{driver="gpu.nvidia.com",type="gpu",product="H100",state="allocated",taint="draguard"}} 2
draguard_devices{{driver="gpu.nvidia.com",type="gpu",product="H100",state="free",taint="driver"}} 1
draguard_devices{{driver="gpu.nvidia.com",type="gpu",product="H100",state="unknown",taint="unknown"}} 1
draguard_devices{{driver="gpu.nvidia.com",type="mig",product="H100",profile="1g.10gb",state="free",taint="other"}} 1
{_incident("one", SICK, phase, what)}
"""  # noqa: E501 - lines of a page


_WAITS = 'dra_claim_namespace="team",dra_claim_name="wait",pod_name="wait-0"'
_TOOK = "\n".join(
    f'draguard_claim_{step}_seconds_bucket{{dra_device_class="gpu",le="{le}"}} 5'
    for step in ("allocation", "start")
    for le in ("60.0", "+Inf")
)
EXPLAINER = f"""
draguard_explainer_leader 1
draguard_explainer_build_info{{version="1"}} 1
draguard_explainer_rows_dropped{{family="claims"}} 0
draguard_claims{{dra_claim_namespace="team",dra_device_class="gpu",state="Pending",reason="Tainted"}} 1
draguard_claims{{dra_claim_namespace="team",dra_device_class="gpu",state="Running",reason="Running"}} 3
draguard_claims_older{{dra_claim_namespace="team",state="Pending",reason="Tainted",age="1m"}} 1
draguard_claim_since_timestamp_seconds{{{_WAITS},dra_device_class="gpu",state="Pending",reason="Tainted"}} -100
{_TOOK}
"""  # noqa: E501 - lines of a page


class Target(NamedTuple):
    labels: str
    page: str
    down: bool = False


EXPORTS = Target('job="exporter",instance="10.0.0.1:9400",node="node-a",pod="e-1"', EXPORTER)
LEADS = Target('job="remediator",instance="10.0.1.1:9401",pod="r-1"', remediator(1))
EXPLAINS = Target('job="explainer",instance="10.0.1.4:9403",pod="x-1"', EXPLAINER)
FOLLOWS = Target('job="remediator",instance="10.0.1.2:9401",pod="r-2"', remediator(0))
DEAD = Target(
    'job="exporter",instance="10.0.0.9:9400",node="node-x",pod="e-9"', EXPORTER, down=True
)
"""It answered half an hour ago."""


def again(target: Target, was: str, now: str) -> Target:
    return target._replace(labels=target.labels.replace(was, now))


def more(target: Target, label: str) -> Target:
    return target._replace(labels=f"{target.labels},{label}")


NEW_POD = Target(EXPORTS.labels.replace("10.0.0.1", "10.0.0.2").replace("e-1", "e-2"), EXPORTER)
KUBELET = Target('job="kubelet",instance="10.0.0.1:9400",node="node-a"', "", down=True)
"""Another program at the address of the exporter, as where addresses are names of nodes."""
PROGRAMS = (EXPORTS, LEADS, FOLLOWS, EXPLAINS, DEAD)
PAIR = tuple(more(target, f'prometheus_replica="{n}"') for target in PROGRAMS for n in "ab")
TWO_JOBS = (*PROGRAMS, *(again(target, 'job="', 'job="annotated-') for target in PROGRAMS))
RENUMBERED = EXPORTER.replace('gpu="2"', 'gpu="1"').replace("580.95.05", "590.1")
ONCE = "once"
SAME: Mapping[str, tuple[Target, ...]] = {
    ONCE: PROGRAMS,
    "two pods of one node": (*PROGRAMS, NEW_POD),
    "two replicas of Prometheus": PAIR,
    "two jobs that scrape the same pages": TWO_JOBS,
    "another program at the same address": (*PROGRAMS, KUBELET),
}
"""The same story, told by more and more pages."""
NAMELESS = tuple(again(target, ',node="node-a"', "") for target in PROGRAMS)
MOVED = Target(
    EXPORTS.labels.replace("10.0.0.1", "10.0.0.3")
    .replace("node-a", "node-b")
    .replace("e-1", "e-3"),
    EXPORTER.replace(f'Hostname="{NODE}"', 'Hostname="node-b"'),
)
DIFFERENT: Mapping[str, tuple[Target, ...]] = {
    "targets without a node": NAMELESS,
    "replicas that differ": (
        EXPORTS,
        LEADS,
        DEAD,
        Target(FOLLOWS.labels, remediator(0, "Evicting", AFTER)),
    ),
    "a new driver that numbers anew": (*PROGRAMS, Target(NEW_POD.labels, RENUMBERED)),
    "a board that moved": (*PROGRAMS, MOVED),
    "an address that moved": (*PROGRAMS, again(MOVED, "10.0.0.3", "10.0.0.1")),
    "an address that moved, and no node": (
        *NAMELESS,
        again(again(MOVED, "10.0.0.3", "10.0.0.1"), ',node="node-b"', ""),
    ),
    "addresses that the scrape drops": tuple(
        target._replace(labels=re.sub(r'instance="[^"]*",', "", target.labels))
        for target in (*PROGRAMS, MOVED)
    ),
    "two leaders": (*PROGRAMS, Target(FOLLOWS.labels.replace("r-2", "r-3"), remediator(1))),
}
"""Stories in which two pages contradict each other."""
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_TIME = re.compile(r"_timestamp_seconds$")
_COUNTER = re.compile(r"_(total|bucket)$")
_LIVE_AGE = 10.0
"""Seconds; the rules' tests go on for as long as a page counts as fresh, five minutes."""


def write(end: int, programs: Path, data: Path) -> None:
    """Make blocks in `data` with the last sample of every story at `end`, Unix seconds."""
    data.mkdir(parents=True, exist_ok=True)
    text = data.parent / "crowd.om"
    with text.open("w", encoding="utf-8") as file:
        for cluster, targets in {**SAME, **DIFFERENT}.items():
            file.writelines(_lines(cluster, targets, end))
        file.write("# EOF\n")
    command = [programs / "promtool", "tsdb", "create-blocks-from", "openmetrics", text, data]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    text.unlink()
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def _lines(cluster: str, targets: tuple[Target, ...], end: int) -> Iterator[str]:
    for target in targets:
        labels = f'cluster="{cluster}",{target.labels}'
        reported = [] if target.down else list(samples(target.page))
        for ago in TIMES:
            yield f"up{{{labels}}} {int(not target.down)} {end + ago}\n"
            for name, own, value in reported:
                shown = _value(name, float(value), ago, end)
                yield f"{name}{{{_honoured(own, labels)}}} {shown} {end + ago}\n"
            if target.page and target.down and ago < DIED:
                yield f"draguard_exporter_build_info{{{labels}}} 1 {end + ago}\n"


def _honoured(own: str, scraped: str) -> str:
    """Return a sample's labels; the page's word goes before the scrape's, as `honorLabels` says."""
    reported = dict(_LABEL.findall(scraped)) | dict(_LABEL.findall(own))
    return ",".join(f'{name}="{value}"' for name, value in reported.items())


def _value(name: str, value: float, ago: int, end: int) -> float:
    if _TIME.search(name):
        happened = value if ago >= value else value - 3600
        return end + (happened if value < 0 else ago - _LIVE_AGE)
    return value + (ago - TIMES[0]) / 10 if _COUNTER.search(name) else value


def queried(server: Prometheus, expression: str, at: float) -> list[dict[str, Any]]:
    """Return the samples of an instant query at a Unix time; raises HTTPError with the reason."""
    query = urllib.parse.urlencode({"query": expression, "time": at})
    return json.loads(server.ask(f"/api/v1/query?{query}"))["data"]["result"]
