"""On a terminal: colours, folding. In a pipe: none of it. As a plugin: real kubectl."""

import os
import pty
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from draguard.cluster.incidents import short_name
from tests.draguard.fleet import LOST_INCIDENT, Fleet

ROOT = Path(__file__).parents[2]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PROGRAM = (sys.executable, "-m", "draguard")
AT_ONCE = """
import runpy
from draguard.connection import progress
progress.PATIENCE = 3600.0
runpy.run_module("draguard", run_name="__main__", alter_sys=True)
"""
"""The program as it is where no command takes long enough to show how far it is."""


def environment(**more: str) -> dict[str, str]:
    plain = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "TERM": "xterm-256color"}
    return plain | {"PYTHONPATH": str(ROOT)} | more


def on_terminal(
    *arguments: str,
    lines: int = 500,
    columns: int = 100,
    more: Mapping[str, str] | None = None,
    ends: Collection[int] = (0,),
    types: str = "",
) -> str:
    """Run a command on a pseudo terminal of its own; gives all that it wrote there."""
    ours, its = pty.openpty()
    size = {"LINES": str(lines), "COLUMNS": str(columns)}
    with subprocess.Popen(
        [sys.executable, "-c", AT_ONCE, *arguments],
        stdin=its,
        stdout=its,
        stderr=its,
        env=environment(**size, **(more or {})),
    ) as process:
        os.close(its)
        os.write(ours, types.encode())
        stated = b""
        with suppress(OSError):  # how a terminal says that its other end was closed
            while piece := os.read(ours, 65536):
                stated += piece
        os.close(ours)
    assert process.returncode in ends, stated
    return stated.decode().replace("\r\n", "\n")


def piped(*arguments: str, **more: str) -> str:
    return subprocess.run(
        [*PROGRAM, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(**more),
    ).stdout


def letters(text: str) -> str:
    return re.sub(r"\s", "", text)


def test_a_terminal_gets_colours_and_nothing_else_that_it_obeys(fleet: Fleet) -> None:
    stated = on_terminal("status", "--kubeconfig", fleet.kubeconfig)

    assert COLOUR.search(stated)
    assert "\x1b" not in COLOUR.sub("", stated)


def test_a_terminal_without_colours_gets_none(fleet: Fleet) -> None:
    where = ("--kubeconfig", fleet.kubeconfig)
    stated = on_terminal("status", *where, more={"NO_COLOR": "1", "TERM": "dumb"})

    assert "\x1b" not in stated


def test_a_pipe_gets_whole_lines_without_colours(fleet: Fleet) -> None:
    stated = piped("incidents", "--kubeconfig", fleet.kubeconfig, COLUMNS="40")

    assert "\x1b" not in stated
    (line,) = [row for row in stated.splitlines() if row.startswith(short_name(LOST_INCIDENT))]
    assert line.endswith("NoExecute deferred: hold by ana: until the run ends")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(columns: int, fleet: Fleet) -> None:
    arguments = ("explain", "xid", "94", "--kubeconfig", fleet.kubeconfig)
    whole = piped(*arguments)
    stated = on_terminal(*arguments, columns=columns)
    shown = COLOUR.sub("", stated)

    assert max(map(len, shown.splitlines())) <= columns
    assert sorted(letters(shown)) == sorted(letters(whole))


def test_what_is_longer_than_the_screen_is_not_paged(fleet: Fleet, tmp_path: Path) -> None:
    """As kubectl: a terminal without a size, or a script's, would hang in a pager."""
    seen = tmp_path / "seen"
    where = ("--kubeconfig", fleet.kubeconfig)

    stated = on_terminal(
        "incidents", LOST_INCIDENT, *where, lines=10, more={"PAGER": f"tee {seen}"}
    )

    assert "What to do" in stated
    assert not seen.exists()


def test_a_reader_that_has_gone_is_no_error(fleet: Fleet) -> None:
    """As `head` does: the status is a shell's for SIGPIPE, and nothing is said."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*PROGRAM, "status", "--kubeconfig", fleet.kubeconfig],
            check=False,
            stdout=write,
            stderr=subprocess.PIPE,
            timeout=60,
            env=environment(),
        )
    finally:
        os.close(write)

    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize(
    "command", [["cleanup", "--all", "--dry-run"], ["status"], ["doctor", "--help"]], ids=" ".join
)
def test_images_without_rich_can_run_what_they_need(command: list[str], fleet: Fleet) -> None:
    """As the hook that runs before an uninstallation, and the doctor on a node."""
    script = (
        "import sys\n"
        "for name in ('rich', 'apscheduler'): sys.modules[name] = None\n"
        "from draguard.__main__ import main\n"
        f"sys.exit(main({[*command, '--kubeconfig', fleet.kubeconfig]!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_kubectl_finds_it_as_its_plugin(fleet: Fleet, tmp_path: Path) -> None:
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "scripts"
    ]["kubectl-draguard"]
    module, _, function = entry.partition(":")
    plugin = tmp_path / "kubectl-draguard"
    plugin.write_text(
        f"#!{sys.executable}\nfrom {module} import {function} as run\nraise SystemExit(run())\n",
        encoding="utf-8",
    )
    plugin.chmod(0o755)
    done = subprocess.run(
        [fleet.cluster.plane.kubectl_program, "draguard", "status"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(PATH=f"{tmp_path}:{os.environ['PATH']}", KUBECONFIG=fleet.kubeconfig),
    )

    assert done.stdout.startswith("Draguard in https://127.0.0.1:")
    assert "2 open, 1 in NeedsHuman" in done.stdout
