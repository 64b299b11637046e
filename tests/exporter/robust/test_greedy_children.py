"""A vendor process that leaks or spins is found, named, ended and started again."""

import itertools
import os
from datetime import datetime
from pathlib import Path

import pytest

from simulator.node import SimulatedNode
from tests.exporter.running import Exporter, is_running, wait_for

pytestmark = pytest.mark.verify

GREEDY = """
import contextlib, hashlib, os, sys, threading, time

def leak():
    held = []
    # On a busy machine half a core is more than a fair share; not everybody may ask for it.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -15)
    # No more than this machine can do without, should nobody look for a while.
    most = 12
    while True:
        if os.path.exists(TRIGGER + "/leak") and len(held) < most:
            held.append(b"x" * (64 << 20))
        if os.path.exists(TRIGGER + "/spin"):
            # As a library does, without the interpreter's lock: samples take no longer for it.
            hashlib.pbkdf2_hmac("sha256", b"", b"", 300_000)
        else:
            time.sleep(0.05)

if "exporter.sensor.nvml.child" in sys.orig_argv:
    threading.Thread(target=leak, daemon=True).start()
"""


def greedy(node: SimulatedNode, *flags: str) -> Exporter:
    """Return an exporter whose NVML child leaks or spins while a file of that name is there."""
    code = node.root / "greedy"
    code.mkdir()
    trigger = f"TRIGGER = {str(node.root)!r}\n"
    (code / "sitecustomize.py").write_text(trigger + GREEDY, encoding="utf-8")
    paths = [str(code), os.environ.get("PYTHONPATH", "")]
    found = os.pathsep.join(filter(None, paths))
    return Exporter(node, "run", *flags, PYTHONPATH=found, TZ="UTC")


def trigger(node: SimulatedNode, what: str) -> Path:
    found = node.root / what
    found.touch()
    return found


def test_a_child_that_leaks_is_ended_before_it_takes_the_nodes_memory(
    node: SimulatedNode,
) -> None:
    with greedy(node, "--child-memory-limit=200") as exporter:
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
        child = exporter.nvml_child()
        leaking = trigger(node, "leak")
        page = exporter.wait_shows('draguard_source_up{source="nvml",reason="Leaking"} 0')
        wait_for(lambda: not is_running(child), what="its end")
        # What is still true is served, what is not known any more is not.
        assert not page.series("DCGM_FI_DEV_GPU_TEMP")
        assert len(page.series("draguard_gpu_info")) == 3
        node.inject_xid(1, 79, nvml=False)
        exporter.wait_count(79, 1)
        leaking.unlink()
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
        assert exporter.nvml_child() != child
        exporter.wait_logged("more than --child-memory-limit allows (200 MiB)")


def test_one_that_leaks_again_and_again_is_started_less_and_less_often(
    node: SimulatedNode,
) -> None:
    with greedy(node, "--child-memory-limit=200") as exporter:
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
        trigger(node, "leak")
        wait_for(lambda: exporter.logged().count("NVML child ") >= 4, 120.0)
        starts = [_clock(line) for line in exporter.logged().splitlines() if "NVML child " in line]
        gaps = [after - before for before, after in itertools.pairwise(starts)]
        # One second, two and four, and what each took to be found on this machine.
        assert gaps[1] > 1.9
        assert gaps[2] > 3.9
        assert exporter.get("/readyz")[0] == 200


def test_a_child_that_spins_is_ended(node: SimulatedNode) -> None:
    with greedy(node, "--interval=2") as exporter:
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
        child = exporter.nvml_child()
        spinning = trigger(node, "spin")
        # On a busy machine it gets half a core only now and then.
        exporter.wait_shows('draguard_source_up{source="nvml",reason="Spinning"} 0', seconds=300)
        wait_for(lambda: not is_running(child), what="its end")
        spinning.unlink()
        exporter.wait_shows('draguard_source_up{source="nvml"} 1', "DCGM_FI_DEV_GPU_TEMP")


def _clock(line: str) -> float:
    """Return the moment that a log line begins with, in seconds."""
    day, time = line.split()[:2]
    return datetime.fromisoformat(f"{day}T{time.replace(',', '.')}+00:00").timestamp()
