"""Streams that are closed, full, or cannot spell: shown as far as possible, and never a crash."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.draguard.fleet import Fleet
from tests.draguard.test_cli_terminal import environment

COMMAND = f"exec {sys.executable} -m draguard"


def ended(script: str, **more: str) -> tuple[int, str, str]:
    """Run a shell's line; gives exit status and both streams, as far as they were left open."""
    done = subprocess.run(
        ["sh", "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"], ids=["out", "err", "in", "all"]
)
def test_a_stream_that_is_closed_is_no_crash(closed: str, fleet: Fleet) -> None:
    status, out, err = ended(f"{COMMAND} status --kubeconfig {fleet.kubeconfig} {closed}")

    assert (status, err) == (0, "")
    assert out.startswith("Draguard in ") == (">&- 2" not in closed and closed != ">&-")


def test_what_is_wrong_is_not_printed_on_stdout_where_stderr_is_closed(tmp_path: Path) -> None:
    """A program reads stdout: a sentence there would be taken for an answer."""
    where = f"--kubeconfig {tmp_path}/none"

    assert ended(f"{COMMAND} status -o json {where} 2>&-") == (2, "", "")


def test_a_full_disk_is_reported_and_is_no_success(fleet: Fleet) -> None:
    where = f"--kubeconfig {fleet.kubeconfig}"
    status, _, err = ended(f"{COMMAND} status {where} > /dev/full")

    assert (status, err) == (
        1,
        "draguard status: cannot write the output: [Errno 28] No space left on device\n",
    )


def test_what_the_terminal_cannot_spell_is_spelled_out(tmp_path: Path) -> None:
    policy = tmp_path / "regel-für-nachts.yaml"
    policy.write_text("defaults: {mode: incident-only}", encoding="utf-8")

    plain = ended(f"{COMMAND} policy check {policy}", PYTHONIOENCODING="ascii")

    assert plain == (0, f"{str(policy).replace('ü', chr(92) + 'xfc')}: valid\n", "")
