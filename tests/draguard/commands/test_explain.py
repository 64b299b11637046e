"""`draguard explain xid` without any cluster: the catalogue, sub-codes, the shipped policy."""

import json
import re
from pathlib import Path

import pytest
import yaml

from alerts import unusable
from alerts.rule import Alert
from draguard.__main__ import main
from draguard.trial.kernel_log import KernelLog, kernel_log_of
from draguard.trial.signal import Signal
from draguard.trial.xid import READ_AS, UNKNOWN_XID_ALERT, known
from exporter.model import xid
from exporter.model.node_health import NodeDeviceHealth, NodeHealth, SourceHealth, Via
from kubeapi.types import ObjectMeta
from remediator.diagnose.xid_table import COMPANIONS, RULE_NAMES, table
from remediator.policy.table import Policy
from tests.draguard.fleet import T0
from tests.draguard.printed import masked, matches, printed
from tests.draguard.test_cli_errors import config, written

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("code", [13, 48, 149, 9999])
def test_a_code_prints_its_golden(code: int, capsys: pytest.CaptureFixture[str]) -> None:
    matches(
        f"explain-{code}-shipped", masked(printed(capsys, "explain", "xid", str(code), "--shipped"))
    )


def test_every_code_of_the_catalogue_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for code in xid.catalogue():
        stated = json.loads(printed(capsys, "explain", "xid", str(code), "--shipped", "-o", "json"))
        assert stated["code"] == code
        assert stated["course"]["verdict"]


@pytest.mark.parametrize("code", [46, 74, 119, 140, 144, 150, 160])
def test_what_the_next_reading_shows_healthy_is_verified_and_not_repaired(code: int) -> None:
    found = known(code, Policy(), "shipped", T0).course

    for course in filter(None, (found.course, found.enforced)):
        assert course.repaired_after is None
        assert course.released_after is not None


def test_every_companion_of_the_table_can_be_played() -> None:
    played = {word for rule in table().values() for word in rule.comes_with}

    assert played == set(COMPANIONS)


def test_every_rule_of_the_table_has_words() -> None:
    assert set(READ_AS) == set(RULE_NAMES)


def test_a_cluster_that_cannot_be_queried_is_reported_and_the_shipped_policy_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "config", config("http://127.0.0.1:1", "t"))

    stated = printed(capsys, "explain", "xid", "79", "--kubeconfig", str(path))

    assert (
        "shipped; the policy of a cluster is unknown: no answer from http://127.0.0.1:1" in stated
    )
    assert re.search("mode +incident-only", stated)


@pytest.mark.parametrize(
    ("words", "comes", "without"),
    [
        ("79", "XID 79, the GPU is lost; ", "--xid 79"),
        ("95", "XID 95, recovery action 1; ", "--xid 95"),
        ("48", "XID 48, recovery action 1; ", "--xid 48"),
        ("136", "XID 136, recovery action 1; ", "--xid 136"),
        ("154", "XID 154, recovery action 1; ", "--xid 154"),
        ("155", "XID 155, recovery action 1; ", "--xid 155"),
        ("175", "XID 175, recovery action 1; ", "--xid 175"),
        ("94 --mig", "XID 94, on GPU instance 3; ", "--xid 94 --mig"),
    ],
)
def test_a_code_is_played_with_what_usually_comes_with_it(
    words: str, comes: str, without: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = printed(capsys, "explain", "xid", *words.split(), "--shipped")
    alone = printed(capsys, "policy", "explain", *without.split())

    assert comes in whole
    assert "NoExecute on gpu-0" in whole
    assert "NoExecute on gpu-0" not in alone
    assert f"the XID alone: draguard policy explain {without}" in whole


def test_a_contained_error_lacks_an_instance_only_where_there_are_some(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = printed(capsys, "policy", "explain", "--xid", "94")
    sliced = printed(capsys, "policy", "explain", "--xid", "94", "--mig")

    assert "without MIG, only the program that read the memory is affected" in whole
    assert "has named the MIG instance" in sliced
    assert "has named" not in whole


@pytest.mark.parametrize("code", [13, 94, 119])
def test_a_code_without_a_usual_companion_is_played_alone(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = printed(capsys, "explain", "xid", str(code), "--shipped")

    assert f"XID {code}; a whole GPU" in stated
    assert "usually comes" not in stated


def test_without_a_cluster_the_charts_kernel_log_is_assumed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = printed(capsys, "explain", "xid", "119", "--shipped")
    played = printed(capsys, "policy", "explain", "--xid", "119")
    by_syslog = printed(capsys, "policy", "explain", "--xid", "119", "--kernel-log", "syslog")

    chart = yaml.safe_load((ROOT / "deploy/helm/draguard/values.yaml").read_text("utf-8"))
    assert chart["exporter"]["kernelLog"] == KernelLog().mode == Signal().kernel_log == "auto"
    assert re.search("kernel log +auto, the chart's default", words)
    assert "; kernel log: auto (from systemd's journal)" in words
    assert "; kernel log: auto (from systemd's journal)" in played
    assert "; kernel log: syslog (by syslog(2))" in by_syslog


@pytest.mark.parametrize("code", [*xid.catalogue(), 9999, 99999])
def test_an_unknown_code_names_the_alert_that_fires(code: int) -> None:
    (alert,) = (rule for rule in unusable.GROUP.rules if rule.name == UNKNOWN_XID_ALERT)
    assert isinstance(alert, Alert)
    assert alert.severity == "warning"
    (others,) = re.findall('code!~"([^"]*)"', alert.expr)

    found = known(code, Policy(), "shipped", T0)

    assert bool(found.alert) == (re.fullmatch(others, str(code)) is None)
    assert found.alert in {"", UNKNOWN_XID_ALERT}


def test_the_ticket_of_an_unknown_code_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    stated = printed(capsys, "explain", "xid", "99999", "--shipped")

    assert re.search(r"alert +DraguardXidUnknown, a ticket: .*DraguardXidUnknown\.md", stated)
    assert (ROOT / "alerts/runbooks/DraguardXidUnknown.md").is_file()


class TestKernelLogOfACluster:
    def test_the_most_common_mode_counts_and_the_others_are_named(self) -> None:
        reports = [report("a", "Journal"), report("b", "Syslog"), report("c", "Journal")]

        found = kernel_log_of(reports)

        assert found.mode == "journal"
        assert found.why == "as on 2 of 3 nodes; by syslog(2) on b"

    def test_what_reports_nothing_of_it_leaves_the_charts_default(self) -> None:
        assert kernel_log_of([report("a", None)]) == kernel_log_of([]) == KernelLog()

    def test_nodes_that_do_not_say_are_counted(self) -> None:
        reports = [report("a", "Syslog"), *(report(f"node-{i}", None) for i in range(99))]

        assert kernel_log_of(reports).why == "as on 1 of 100 nodes; not known of 99"

    def test_the_device_is_kmsg(self) -> None:
        found = kernel_log_of([report("a", "Device")])

        assert (found.mode, found.why) == ("kmsg", "as on 1 of 1 node")


def report(node: str, via: Via | None) -> NodeDeviceHealth:
    sources = (SourceHealth(name="kmsg", state="Up", via=via),)
    status = NodeHealth(boot_id="boot", observed_at=T0, sources=sources)
    return NodeDeviceHealth(ObjectMeta(name=node), status)


def test_a_policy_file_counts_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("classes: {lost: {mode: enforce}}", encoding="utf-8")

    stated = printed(capsys, "explain", "xid", "79", "--policy", str(policy))

    assert "enforce, ceiling NoExecute (row classes.lost)" in stated


def test_a_policy_file_that_cannot_be_read_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("defaults: {mode: harsh}", encoding="utf-8")

    assert main(["explain", "xid", "79", "--policy", str(policy)]) == 1
    assert "harsh" in capsys.readouterr().err
    assert main(["plan", "--policy", str(policy)]) == 1
    assert "harsh" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (("94x",), "xid 79"),
        (("94", "95"), "xid 79"),
        (("xid",), "xid 79"),
        (("xid", "94x"), "xid 79"),
        (("xid", "-5"), "xid 79"),
        (("xid", "9" * 30), "xid 79"),
        (("sxid", "94"), "xid 79"),
    ],
)
def test_what_is_no_xid_gets_an_error_that_shows_the_usage(
    words: tuple[str, ...], instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["explain", *words, "--shipped"])

    assert ended.value.code == 2
    assert f"write `draguard explain {instead}`" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--mig"], ["--mig", "--gi", "3"], ["--lost"], ["--reset"]])
def test_no_sentence_says_a_word_twice(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for code in (48, 64, 74, 79, 94, 95, 119, 144):
        words = printed(capsys, "policy", "explain", "--xid", str(code), *more)
        assert not re.search(r"\b(\w+)\b:? +\1(?![\w-])", words, re.IGNORECASE), words
        assert not re.search(r"Verifying: .*verifying:", words), words


def test_a_fault_that_needs_no_repair_does_not_sound_as_if_nothing_helped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "repair                 none needed" in printed(
        capsys, "explain", "xid", "94", "--shipped"
    )


@pytest.mark.parametrize(
    "command", [("policy", "check"), ("plan", "--policy"), ("explain", "xid", "79", "--policy")]
)
def test_a_policy_file_that_is_not_there_is_a_plain_error(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "/nowhere/policy.yaml"]) == 1
    stated = capsys.readouterr().err
    assert stated.endswith("/nowhere/policy.yaml: it cannot be read: No such file or directory\n")
