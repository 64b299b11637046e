"""What the GPUs of a played cluster do over six hours: steady training, waves of inference, idling.

Made up, and the same each time; only the numbers that a simulated board gets come from here,
everything after that is done by real programs. Pure.
"""

import math
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from simulator.gpu import Gpu, Instance, Process

TRAINING = "llm-pretrain"
TUNING = "finetune"
SERVING = "chat-serving"
IDLE = "notebook"
"""Names of Deployments; what a GPU does follows from whose pod holds it."""
_MEMORY_MIB = 81_559
_IDLE_WATTS = 71


class Holder(NamedTuple):
    """A pod that holds a device."""

    name: str
    uid: str


def _wave(seed: str, at: float, period: float) -> float:
    """Return a number from -1 to 1 that moves slowly: two sines out of step, by name."""
    phase = zlib.crc32(seed.encode()) % 628 / 100
    turn = 2 * math.pi * at / period
    return 0.7 * math.sin(turn + phase) + 0.3 * math.sin(2.7 * turn + 2 * phase)


def busy(holder: str, seed: str, at: float) -> float:
    """Return how busy a GPU is, 0 to 1, `at` seconds into the story."""
    noise = 0.03 * _wave(seed + "noise", at, 420)
    if holder.startswith(TRAINING):
        # All of one job stop together to write a checkpoint.
        return 0.35 + noise if at % 3600 < 240 else 0.95 + noise
    if holder.startswith(TUNING):
        return 0.78 + 0.1 * _wave(seed, at, 2400) + noise
    if holder.startswith(SERVING):
        return max(0.05, 0.45 + 0.3 * _wave(SERVING, at, 14_000) + 0.1 * _wave(seed, at, 1300))
    return 0.0


def _load_board(gpu: Gpu, share: float, seed: str, seconds: float) -> None:
    """Let a whole GPU be busy; `seconds` have gone by since the last time."""
    watts = _IDLE_WATTS + share * 585 + 12 * share * _wave(seed + "watts", seconds, 1)
    degrees = 31 + share * 33 + 2 * _wave(seed + "place", 1, 7)
    gpu.values |= _values(share)
    gpu.values |= {
        "power_mw": round(watts * 1000),
        "energy_mj": (gpu.value("energy_mj") or 0) + round(watts * 1000 * seconds),
        "temperature_c": round(degrees),
        "memory_temperature_c": round(degrees + 8 + share * 6),
        "sm_clock_mhz": 345 if share == 0 else round(1980 - share * 60),
        "clocks_event_reasons": 1 if share == 0 else 4 if share > 0.9 else 0,
        "pcie_tx_kib": round(share * 900_000),
        "pcie_rx_kib": round(share * 2_600_000),
    }


def _values(share: float) -> Mapping[str, int]:
    ratios = {"graphics": 1.0, "sm": 0.93, "occupancy": 0.42, "tensor": 0.55, "dram": 0.61}
    rates = {"nvlink_tx": 180_000, "nvlink_rx": 180_000, "pcie_tx": 900, "pcie_rx": 2600}
    return {
        "utilization": round(100 * share),
        "memory_utilization": round(58 * share),
        **{f"gpm_{name}": round(1_000_000 * share * part) for name, part in ratios.items()},
        **{f"gpm_{name}_mib": round(share * most) for name, most in rates.items()},
    }


def _process(pid: int, pod: str, share: float, instance: Instance | None = None) -> Process:
    """Return the process of a pod (by UID) that holds memory there."""
    whole = _MEMORY_MIB if instance is None else instance.profile.memory_mib
    held = 0.0 if share == 0 else 0.55 + 0.35 * share
    return Process(
        pid=pid,
        memory_mib=round(whole * held),
        gi=instance.gi if instance else None,
        ci=instance.ci if instance else None,
        pod=pod,
        container="c0" * 32,
        values={} if instance else {"sm_util": round(100 * share)},
    )


_NOBODY = Holder("", "")


def load(place: str, gpu: Gpu, holders: Mapping[str, Holder], at: float, seconds: float) -> None:
    """Tell a GPU and its slices what they do; `place` is `pool/device` of the GPU."""
    gpu.processes = []
    if gpu.instances:
        shares = [_load_slice(place, gpu, instance, holders, at) for instance in gpu.instances]
        _load_board(gpu, sum(shares) / len(shares), gpu.uuid, seconds)
        return
    holder = holders.get(place, _NOBODY)
    share = busy(holder.name, gpu.uuid, at)
    _load_board(gpu, share, gpu.uuid, seconds)
    _hold(gpu, 1000 + gpu.minor, holder, share)
    gpu.values["memory_used_mib"] = sum(process.memory_mib for process in gpu.processes)


def _load_slice(
    place: str, gpu: Gpu, instance: Instance, holders: Mapping[str, Holder], at: float
) -> float:
    """Tell a slice what it does, and return how busy it is."""
    ending = f"-{instance.profile.profile_id}-{instance.start}"
    named = (pod for device, pod in holders.items()
             if device.startswith(f"{place}-mig-") and device.endswith(ending))  # fmt: skip
    holder = next(named, _NOBODY)
    share = busy(holder.name, instance.uuid, at)
    instance.values |= {name: value for name, value in _values(share).items() if "gpm" in name}
    _hold(gpu, 2000 + 10 * gpu.minor + instance.start, holder, share, instance)
    return share


def _hold(
    gpu: Gpu, pid: int, holder: Holder, share: float, instance: Instance | None = None
) -> None:
    if holder.uid:
        gpu.processes.append(_process(pid, holder.uid, share, instance))
