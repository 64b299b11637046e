"""`draguard COMMAND`: what is there, and what is said when it is not."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from draguard.__main__ import main


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert {"exporter", "remediator", "incidents"} <= set(capsys.readouterr().out.split())


def test_without_a_command_it_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: draguard [GLOBAL FLAGS] COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("statu", " (did you mean status?)"),
        ("confirm", " (did you mean confirm-repaired?)"),
        ("x", ""),
    ],
)
def test_a_command_that_is_not_there_is_an_error_with_what_may_be_meant(
    word: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    stated = capsys.readouterr().err
    assert (
        stated
        == f"draguard: unknown command '{word}'{meant}\n`draguard --help` lists all commands\n"
    )


@pytest.mark.parametrize("flag", ["-f", "--collectors", "-collectors", "--collectors="])
def test_the_arguments_of_dcgm_exporters_image_run_the_exporter(flag: str, tmp_path: Path) -> None:
    """The GPU Operator passes `-f FILE` and no command."""
    file = str(tmp_path / "none.csv")
    arguments = [flag + file] if flag.endswith("=") else [flag, file]
    ran = subprocess.run(
        [sys.executable, "-m", "draguard", *arguments, "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert f"exporter: {file} cannot be read" in ran.stderr


@pytest.mark.parametrize("flag", ["-n", "-o", "-z", "--namespace"])
def test_a_flag_without_a_command_is_not_the_exporters(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([flag, "status"]) == 2
    stated = capsys.readouterr().err
    known = "there is no command after the global flags"
    assert ("-z is no global flag" if flag == "-z" else known) in stated


def test_it_says_which_version_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"draguard {version('draguard')}\n"


@pytest.mark.parametrize(
    ("command", "flag"),
    [("exporter", "--nvml-library-dir"), ("remediator", "--policy"), ("incidents", "--all")],
)
def test_flags_belong_to_the_part(
    command: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert flag in capsys.readouterr().out


def test_cordon_names_all_that_is_missing_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    devices, reason = "name devices, or a whole node with --node", "a reason is required: --reason"

    for words, missing, given in (
        ((), (devices, reason), ()),
        (("gpu-7/3",), (reason,), (devices,)),
        (("--node", "gpu-7", "--reason", " "), (reason,), (devices,)),
        (("--reason", "x"), (devices,), (reason,)),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["cordon", *words])
        assert ended.value.code == 2
        stated = capsys.readouterr().err
        assert [each for each in missing if each not in stated] == []
        assert [each for each in given if each in stated] == []


def test_a_library_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "draguard.commands.policy", raising=False)
    monkeypatch.delitem(sys.modules, "draguard.render.formats", raising=False)
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert main(["policy"]) == 2
    stated = capsys.readouterr().err
    assert "yaml is missing" in stated
    assert "draguard[cli]" in stated
