"""The command line that people know from kubectl: flags, help, versions, formats, watching."""

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from draguard.__main__ import main
from draguard.command_table import COMMANDS
from draguard.grammar import UsageError, arranged
from kubeapi.lease import leases
from remediator.controller.agents import LEASE_NAME
from remediator.controller.agents import VERSION as LEASE_VERSION
from tests.chain.scene import INCIDENTS, LEASES
from tests.draguard.fleet import (
    LOST_INCIDENT,
    SICK,
    SLICE_INCIDENT,
    SLICED,
    VERSION,
    Fleet,
)
from tests.draguard.printed import items, printed
from tests.draguard.test_cli_terminal import environment, piped


@pytest.mark.parametrize(
    ("typed", "parsed"),
    [
        ("-n foo status", "status -n foo"),
        ("--context=prod -o json incidents x", "incidents --context=prod -o json x"),
        ("-nfoo plan --node a", "plan -nfoo --node a"),
        ("-n foo policy check f", "policy check f"),
        ("--context prod -o json policy check f", "policy check -o=json f"),
        ("help hold", "hold --help"),
        ("help policy check", "policy check --help"),
        ("help", "--help"),
        ("-n foo help status", "status --help"),
        ("xid 79 --shipped", "explain xid 79 --shipped"),
        ("doctor -- --dcgm=off", "doctor -- --dcgm=off"),
        ("-n foo doctor -- --dcgm=off", "doctor -n foo -- --dcgm=off"),
        ("status -n foo", "status -n foo"),
        ("", ""),
    ],
)
def test_words_are_arranged_for_the_command(typed: str, parsed: str) -> None:
    assert " ".join(arranged(typed.split())) == parsed


@pytest.mark.parametrize("command", ["status", "incidents", "plan"])
@pytest.mark.parametrize("flag", ["-A", "--all-namespaces"])
def test_the_flag_for_all_namespaces_changes_nothing(command: str, flag: str) -> None:
    row = COMMANDS[command]
    made: argparse.ArgumentParser = getattr(importlib.import_module(row.module), row.parser)()

    given = vars(made.parse_args([flag]))
    assert {**given, "all_namespaces": False} == vars(made.parse_args([]))


@pytest.mark.parametrize("flags", ["-o json", "-ojson", "--output=json", "-n x -o json"])
def test_a_format_before_bundle_is_not_taken_for_a_file(flags: str) -> None:
    with pytest.raises(UsageError, match="draguard bundle -o FILE"):
        arranged([*flags.split(), "bundle"])


@pytest.mark.parametrize("typed", ["-n", "--context prod", "-o json -n"])
def test_global_flags_alone_are_no_command(typed: str) -> None:
    with pytest.raises(UsageError):
        arranged(typed.split())


def test_a_global_flag_stands_before_or_behind_the_command(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    before = printed(capsys, "--kubeconfig", fleet.kubeconfig, "-o", "name", "incidents")
    behind = printed(capsys, "incidents", "--kubeconfig", fleet.kubeconfig, "-o", "name")

    assert before == behind != ""


def test_help_of_a_command_is_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["help", "cordon"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: draguard cordon ")


@pytest.mark.parametrize(("word", "meant"), [("taint", "cordon"), ("describe", "incidents")])
def test_a_verb_of_kubectl_leads_to_the_command(
    word: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    assert f"(did you mean {meant}?)" in capsys.readouterr().err


class TestVersion:
    def test_the_client_alone_needs_no_cluster(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert printed(capsys, "version", "--client") == f"client  {VERSION}\n"

    def test_all_parts_are_named(self, fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
        where = ("--kubeconfig", fleet.kubeconfig)
        path = f"{leases(LEASES)}/{LEASE_NAME}"
        mark = {"metadata": {"annotations": {LEASE_VERSION: "0.0.9"}}}
        fleet.cluster.client.merge_patch(path, mark)
        try:
            stated = printed(capsys, "version", *where)
            found = msgspec.json.decode(printed(capsys, "version", "-o", "json", *where))
        finally:
            mark = {"metadata": {"annotations": {LEASE_VERSION: None}}}
            fleet.cluster.client.merge_patch(path, mark)

        assert "remediator  0.0.9 (leader remediator-0)" in stated
        assert f"agents      {VERSION} on 4 nodes" in stated
        assert "cluster     Kubernetes v1." in stated
        assert (found["kind"], found["client"]) == ("Version", VERSION)
        assert found["agents"] == {VERSION: 4}

    def test_a_leader_that_does_not_publish_it_is_unknown(
        self, fleet: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stated = printed(capsys, "version", "--kubeconfig", fleet.kubeconfig)

        assert "remediator  unknown: its Lease has no version (leader remediator-0)" in stated


class TestFormats:
    def test_names_can_be_given_to_kubectl(
        self, fleet: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = ("--kubeconfig", fleet.kubeconfig)
        named = printed(capsys, "incidents", "-o", "name", *where).split()

        assert named == [
            f"deviceincident.draguard.dev/{name}" for name in (SLICE_INCIDENT, LOST_INCIDENT)
        ]
        assert "annotated" in fleet.cluster.plane.kubectl(
            "annotate", *named, "seen-", "--dry-run=server"
        )

    def test_wide_has_the_gpu_and_what_it_needs(
        self, fleet: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stated = printed(capsys, "incidents", "-o", "wide", "--kubeconfig", fleet.kubeconfig)

        assert "GPU" in stated.splitlines()[0].split()
        assert SICK in stated
        assert "node-reboot" in stated

    def test_an_object_is_printed_as_it_is_stored(
        self, fleet: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = ("--kubeconfig", fleet.kubeconfig)
        found = msgspec.json.decode(
            printed(capsys, "incidents", LOST_INCIDENT, "-o", "json", *where)
        )
        stored = msgspec.json.decode(fleet.cluster.client.get(f"{INCIDENTS}/{LOST_INCIDENT}"))
        stored["metadata"].pop("managedFields")

        assert found == stored
        assert [*found][:2] == ["apiVersion", "kind"]

    def test_a_list_has_the_same_objects(
        self, fleet: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = ("--kubeconfig", fleet.kubeconfig)
        found = msgspec.json.decode(printed(capsys, "incidents", "-o", "json", *where))
        path = "jsonpath={.items[*].metadata.name}"

        assert (found["apiVersion"], found["kind"]) == (
            "draguard.dev/v1alpha1",
            "DeviceIncidentList",
        )
        assert {item["kind"] for item in found["items"]} == {"DeviceIncident"}
        names = printed(capsys, "incidents", "-o", path, *where)
        assert names.split() == [item["metadata"]["name"] for item in found["items"]]

    @pytest.mark.parametrize(
        ("command", "kind"),
        [
            ("status", "Status"),
            ("plan", "Plan"),
            ("explain xid 79", "XidExplanation"),
            ("policy explain --xid 79", "PolicyExplanation"),
            ("uncordon --all --dry-run", "CordonChangeList"),
            ("cleanup --all --dry-run", "RemovalList"),
        ],
    )
    def test_every_document_says_what_it_is(
        self, command: str, kind: str, fleet: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = () if command.startswith("policy") else ("--kubeconfig", fleet.kubeconfig)
        stated = printed(capsys, *command.split(), "-o", "json", *where)
        found = msgspec.json.decode(stated)

        assert [*found][:2] == ["apiVersion", "kind"]
        assert found["kind"] == kind
        assert found["apiVersion"] == "cli.draguard.dev/v1alpha1"

    @pytest.mark.parametrize(
        ("output", "why"),
        [
            ("xml", "invalid format 'xml'; choose from text, wide, json, yaml, jsonpath=TEMPLATE"),
            ("name", "invalid format 'name'"),
            ("jsonpath={.a", "a brace is not closed"),
        ],
    )
    def test_a_wrong_format_is_refused_with_those_that_exist(
        self, output: str, why: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit):
            main(["status", "-o", output])
        assert why in capsys.readouterr().err


class TestSeveral:
    def test_incidents_in_detail(self, fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
        words = (LOST_INCIDENT, SLICED[:12])
        stated = printed(capsys, "incidents", *words, "--kubeconfig", fleet.kubeconfig)

        assert [
            line for line in stated.splitlines() if line in {LOST_INCIDENT, SLICE_INCIDENT}
        ] == [
            LOST_INCIDENT,
            SLICE_INCIDENT,
        ]

    def test_one_wrong_name_and_nothing_is_written(
        self, fleet: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ("hold", LOST_INCIDENT, "gpu-none", "--until", "1h", "--reason", "x")
        assert main([*words, "--kubeconfig", fleet.kubeconfig]) == 1
        assert "there is no incident 'gpu-none'" in capsys.readouterr().err
        stored = msgspec.json.decode(fleet.cluster.client.get(f"{INCIDENTS}/{LOST_INCIDENT}"))
        assert "hold" not in stored["spec"]

    def test_all_are_held_and_free_again(
        self, fleet: Fleet, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = ("--kubeconfig", fleet.kubeconfig, "-o", "json")
        both = (LOST_INCIDENT, SLICE_INCIDENT)
        held = printed(capsys, "hold", *both, "--until", "1h", "--reason", "x", *where)
        removed = printed(capsys, "hold", *both, "--remove", *where)

        assert [item["incident"] for item in items(held, "IntentList")] == [*both]
        assert [item["intent"] for item in items(removed, "IntentList")] == [None, None]


def test_as_a_plugin_every_command_is_spelled_as_it_is_typed(fleet: Fleet, tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-draguard"
    plugin.write_text(
        f"#!{sys.executable}\nfrom draguard.__main__ import main\nraise SystemExit(main())\n",
        encoding="utf-8",
    )
    plugin.chmod(0o755)

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [plugin, *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(KUBECONFIG=fleet.kubeconfig),
        )
        return done.stdout + done.stderr

    assert run("--help").startswith("usage: kubectl draguard ")
    assert "  kubectl draguard hold INCIDENT" in run("hold", "--help")
    assert run("statu").startswith("kubectl draguard: unknown command 'statu'")
    assert "`kubectl draguard incidents --all` lists them" in run("incidents", "gpu-none")
    assert "\nkubectl draguard hold " in run("incidents", LOST_INCIDENT)
    assert "kubectl draguard hold" not in piped(
        "incidents", LOST_INCIDENT, KUBECONFIG=fleet.kubeconfig
    )
