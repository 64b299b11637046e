"""The whole demo as its user starts it, without a terminal."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from simulator.cluster.build import cache_folder

PATIENCE = 500
"""Seconds for a story that takes one minute where nothing else runs."""
ROOT = Path(__file__).parents[3]
CLAIMS = f"draguard-ports-{os.getuid()}"
"""An empty file by which processes agree on ports (`simulator.cluster.ports`): it stays."""

pytestmark = [pytest.mark.usefixtures("control_plane_built"), pytest.mark.verify]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where the demo puts its temporary files; short, because unix sockets lie in it."""
    made = Path(tempfile.mkdtemp(prefix="d-"))
    claims = made.parent / CLAIMS
    claims.touch(mode=0o600)
    # Else it would agree on ports with itself alone, and take one that a test here was given.
    (made / CLAIMS).hardlink_to(claims)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def without_kubectl(tmp_path: Path) -> Path:
    """What is built here, but for kubectl, which the demo shall not build."""
    made = tmp_path / "draguard"
    made.mkdir()
    for entry in cache_folder().iterdir():
        if not entry.name.startswith("kubectl"):
            (made / entry.name).symlink_to(entry)
    return tmp_path


@contextmanager
def running(
    folder: Path, *flags: str, cache: Path | None = None
) -> Generator["subprocess.Popen[str]"]:
    demo = subprocess.Popen(
        [sys.executable, "-m", "tools.demo", *flags],
        cwd=ROOT,
        env={
            **os.environ,
            "TMPDIR": str(folder),
            "XDG_CACHE_HOME": str(cache or cache_folder().parent),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield demo
    finally:
        demo.kill()
        demo.communicate()


def left_of(folder: Path) -> list[str]:
    """Return the files and processes that are left of a demo."""
    lines: list[str] = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            lines.append(line)
    return [*(str(path) for path in folder.iterdir() if path.name != CLAIMS), *lines]


def await_nothing_left(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while left := left_of(folder):
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.05)


def read_until(demo: "subprocess.Popen[str]", text: str) -> str:
    """Return what the demo said up to a line with `text`."""
    assert demo.stdout is not None
    stated: list[str] = []
    for line in demo.stdout:
        stated.append(line)
        if text in line:
            return "".join(stated)
    raise AssertionError(f"ended without saying {text!r}: {''.join(stated)}")


def cli(kubeconfig: str, command: str) -> str:
    """Run a command of the command line, which must be content with the cluster."""
    return subprocess.run(
        [sys.executable, "-m", "draguard", command, "--kubeconfig", kubeconfig],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    ).stdout


def kept_pages(demo: "subprocess.Popen[str]") -> tuple[str, dict[str, str]]:
    """Return what a demo that stays up said, and what the command line says of it; then end it."""
    stated = read_until(demo, "Logs:")
    (kubeconfig,) = re.findall(r"export KUBECONFIG=(\S+)", stated)
    pages = {command: cli(kubeconfig, command) for command in ("status", "plan", "doctor")}
    demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate(timeout=PATIENCE)
    return stated + rest, pages


def test_the_story_comes_out_right_what_is_kept_is_healthy_and_then_nothing_is_left(
    folder: Path,
) -> None:
    with running(folder, "--keep") as demo:
        stated, pages = kept_pages(demo)
    assert demo.returncode == 0, stated
    assert "The story came out right" in stated
    assert stated.count("│ ok │") == 5
    assert "the eviction controller deletes" in stated
    assert "24 healthy, 0 sick, 0 unknown" in pages["status"]
    assert "incidents  none open" in pages["status"]
    assert "mode       enforce: every class" in pages["status"]
    assert "no sick GPUs, no open incidents, no taint rules" in pages["plan"]
    assert " 0 bad, " in pages["doctor"]
    for page in pages.values():
        assert "draguard-policy, key policy.yaml, in force (hash " in page
    await_nothing_left(folder)


def test_a_remediator_that_may_only_watch_makes_the_story_wrong_and_keep_stays_up(
    folder: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("defaults: {mode: incident-only, settle: 1s, soak: 2s}\n", encoding="utf-8")
    with running(folder, f"--policy={policy}", "--keep") as demo:
        stated, pages = kept_pages(demo)
    assert demo.returncode == 1
    assert "act 2 (a contained error in one MIG slice): expected: " in stated
    assert "seen: no rule was made" in stated
    assert "act 3 (a GPU falls off the bus): not played" in stated
    assert "Everything stays up until Ctrl-C" in stated
    assert "kubectl get ndh,di" in stated
    assert "draguard status; draguard incidents; draguard plan; draguard doctor" in stated
    assert "mode       incident-only: every class" in pages["status"]
    for page in pages.values():
        assert "draguard-policy, key policy.yaml, in force (hash " in page
    assert " 0 bad, " in pages["doctor"]
    await_nothing_left(folder)


@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [
        ("starting etcd", signal.SIGINT, 130),
        ("starting 3 exporters", signal.SIGINT, 130),
        ("Act 2", signal.SIGTERM, 130),
        ("Act 1", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_an_end_at_any_moment_leaves_nothing(
    folder: Path, without_kubectl: Path, moment: str, number: signal.Signals, code: int
) -> None:
    with running(folder, cache=without_kubectl) as demo:
        read_until(demo, moment)
        demo.send_signal(number)
        demo.communicate(timeout=PATIENCE)
    assert demo.returncode == code
    assert not list(without_kubectl.glob("*/kubectl*"))
    await_nothing_left(folder)
