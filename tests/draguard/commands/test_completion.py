"""A shell completes commands, flags, formats and names; kubectl does so for the plugin."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from draguard.commands.complete import main
from tests.draguard.fleet import SICK, Fleet
from tests.draguard.test_cli_errors import config, written
from tests.draguard.test_cli_terminal import ROOT, environment


def completed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    """Return the candidates without what they mean, and the directive."""
    capsys.readouterr()
    assert main([*words]) == 0
    *found, directive = capsys.readouterr().out.splitlines()
    return [line.partition("\t")[0] for line in found], directive


@pytest.mark.parametrize(
    ("words", "some", "directive"),
    [
        (("sta",), ["status"], ":4"),
        (("-n", "foo", "sta"), ["status"], ":4"),
        (("--cont",), ["--context"], ":4"),
        (("help", "unc"), ["uncordon"], ":4"),
        (("completion", ""), ["bash", "zsh", "fish"], ":4"),
        (("policy", ""), ["check", "explain"], ":4"),
        (("policy", "check", ""), [], ":0"),
        (("policy", "explain", "--kernel-log", "j"), ["journal"], ":4"),
        (("status", "-o", ""), ["text", "wide", "json", "yaml"], ":4"),
        (("incidents", "-o", "n"), ["name"], ":4"),
        (("incidents", "--output=j"), ["--output=json"], ":4"),
        (("incidents", "--output", "=", "j"), ["json"], ":4"),
        (("-o", "w"), ["wide"], ":4"),
        (("hold", "--unt"), ["--until"], ":4"),
        (("plan", "--policy", ""), [], ":0"),
        (("explain", "xi"), ["xid"], ":4"),
        (("explain", "xid", "79"), ["79"], ":4"),
        (("nothing", ""), [], ":0"),
    ],
    ids=str,
)
def test_words_that_need_no_cluster(
    words: tuple[str, ...], some: list[str], directive: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed(capsys, *words) == (some, directive)


def test_no_command_is_offered_that_only_programs_use(capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = completed(capsys, "")

    assert {"status", "hold", "help", "completion"} <= {*found}
    assert not {"__complete", "remediator", "explainer"} & {*found}


@pytest.mark.parametrize("command", ["incidents", "hold", "ignore", "untaint", "confirm-repaired"])
def test_incidents_are_completed_by_their_short_names(
    command: str, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", fleet.kubeconfig)

    found, _ = completed(capsys, command, *where, "gpu-b")

    assert found == ["gpu-b0000000-1"]


def test_devices_nodes_and_contexts(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--kubeconfig", fleet.kubeconfig)

    assert completed(capsys, "cordon", *where, "node-a/")[0] == ["node-a/0", "node-a/1"]
    assert completed(capsys, "cordon", *where, "--reason", "x", "GPU-b")[0] == [SICK]
    assert completed(capsys, *where, "plan", "--node", "")[0] == [
        f"node-{letter}" for letter in "abcde"
    ]
    assert "remediator" in completed(capsys, *where, "status", "--context", "")[0]


def test_without_a_cluster_nothing_is_completed_and_nothing_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = written(tmp_path, "config", config("http://127.0.0.1:1", "t"))
    for words in (("--kubeconfig", str(nowhere)), ("--kubeconfig", str(tmp_path / "none"))):
        assert main(["incidents", *words, ""]) == 0
        assert capsys.readouterr() == (":4\n", "")


def installed(folder: Path) -> str:
    """Return a PATH with the programs as an installation has them."""
    for name, module, function in (
        ("draguard", "draguard.__main__", "main"),
        ("kubectl-draguard", "draguard.__main__", "main"),
        ("kubectl_complete-draguard", "draguard.commands.complete", "plugin"),
    ):
        program = folder / name
        call = f"from {module} import {function}\nraise SystemExit({function}())\n"
        program.write_text(f"#!{sys.executable}\n{call}", encoding="utf-8")
        program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_bash_itself_completes(fleet: Fleet, tmp_path: Path) -> None:
    script = (
        'source <(draguard completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_draguard; printf "%s\\n" "${COMPREPLY[@]}"; complete -p draguard'
    )
    words = ("draguard", "hold", "--kubeconfig", fleet.kubeconfig, "gpu-c")
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", *words],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(PATH=installed(tmp_path)),
    )

    assert done.stdout == "gpu-c0000000-2\ncomplete -F _draguard draguard\n"
    assert done.stderr == ""


def test_kubectl_completes_its_plugin(fleet: Fleet, tmp_path: Path) -> None:
    kubectl = fleet.cluster.plane.kubectl_program
    done = subprocess.run(
        [kubectl, "__complete", "draguard", "hold", "gpu-b"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(PATH=installed(tmp_path), KUBECONFIG=fleet.kubeconfig),
    )

    first, *_, directive = done.stdout.splitlines()
    assert first.startswith("gpu-b0000000-1")
    assert directive == ":4"


def test_every_program_of_the_installation_is_one_that_exists() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    assert 'kubectl_complete-draguard = "draguard.commands.complete:plugin"' in text
