"""Failure rates from published counts, in events per million GPU-hours.

Sources: Delta's A100 and H100 (GH200) columns of "Incident of Two GPUs" (SC '25,
arXiv 2503.11901, table of counts over 9.62 M and 2.13 M GPU-hours, equal errors of
one GPU within 5 s merged); the faulty-GPU rate of Llama 3 (54 days, 16,384 H100);
the share of unreachable GPUs without an XID of Meta's RSC-1 (HPCA '25: 57 %);
silent corruption of Llama 3. What no source gives is marked as an assumption. Pure.
"""

from typing import Literal

import msgspec

from benchmarks.replay.truth import Answers

Kind = Literal[
    "app",
    "mmu",
    "gsp",
    "nvlink",
    "nvlink5",
    "spi",
    "dbe",
    "remap",
    "remap-failure",
    "contained",
    "uncontained",
    "gone",
    "silent",
    "switch",
    "fabric-waits",
    "fabric-fails",
    "other-driver",
    "not-published",
    "off-bus",
    "unknown-xid",
    "cut-otherwise",
]
"""`app`: XIDs 13, 43 and 45 of applications; `mmu` 31, `gsp` 119, `nvlink` 74, `nvlink5` 149, `spi`
122, `dbe` 48, `remap` 63, `remap-failure` 64, `contained` 94, `uncontained` 95, `gone` 79 and
losses without an XID, `silent` corruption without any signal, `switch` an SXid that is fatal to the
fabric (no rate is published, so only the replay of sources draws it). The last seven, of
GPUs that are of no use (`unusable`), have no published rate: only the replay of states draws them.
"""

MEMORY: frozenset[Kind] = frozenset({"dbe", "remap", "remap-failure", "contained", "uncontained"})
"""Kinds of which a few bad GPUs have most."""
PROGRAMS: frozenset[Kind] = frozenset({"app", "mmu"})
"""Kinds that programs cause: they go on while a GPU is broken, unless it is lost or hangs."""

_GONE, _SILENT = 7.0, 0.28


class Assumptions(msgspec.Struct, frozen=True, kw_only=True):
    """What faults and nodes are like; all but drawn replays (`drawn`) take these figures."""

    open_modules: float = 0.5
    """Of nodes: their log names no MIG instance."""
    no_xid: float = 0.57
    """Of unreachable GPUs (RSC-1)."""
    gsp_passes: float = 0.01
    """GSP timeouts after which the GPU works on (Delta: 99 % end in a dead GPU)."""
    nvlink_again: float = 0.66
    """XID 74 (Delta v1): recurs on the same GPU."""
    nvlink_ends: float = 0.20
    """XID 74 without a consequence."""
    nvlink_spreads: float = 0.14
    """XID 74 that shows on peers."""
    crash_loop: float = 0.03
    """Of application errors: a job that restarts on the same GPU, up to 35 times. An assumption."""
    boot: float = 300.0
    """Seconds that a reboot takes."""
    upgrade: float = 240.0
    """Seconds without NVML in a driver upgrade."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    product: str
    driver: str
    rates: dict[Kind, float]
    assumed: Assumptions = Assumptions()


A100 = Profile(
    name="A100",
    product="NVIDIA A100-SXM4-80GB",
    driver="580.82.07",
    rates={
        "mmu": 921.0,
        "gsp": 401.0,
        "nvlink": 200.0,
        "spi": 8.0,
        "dbe": 0.1,
        "remap": 3.5,
        "remap-failure": 0.0,
        "contained": 1.4,
        "uncontained": 1.1,
        "gone": _GONE,
        "silent": _SILENT,
    },
)
H100 = Profile(
    name="H100",
    product="NVIDIA H100 80GB HBM3",
    driver="580.82.07",
    rates={
        "mmu": 815.0,
        "gsp": 1.4,
        "nvlink": 0.0,
        "nvlink5": 10.0,  # assumption: Delta's GH200 logged none, so that it is played at all
        "dbe": 8.0,
        "remap": 7.5,
        "remap-failure": 3.8,
        "contained": 6.6,
        "uncontained": 8.9,
        "gone": _GONE,
        "silent": _SILENT,
    },
)
PROFILES = {profile.name: profile for profile in (A100, H100)}


UNSENT = frozenset({62, 79, 119, 120, 154})
"""XIDs of which some drivers may send no NVML event: DCGM takes 79, 119 and 120 from the kernel
log, and 62 is missing in its metric (DCGM#235)."""
DELAYS = (3600.0, 24 * 3600.0)
"""Seconds after which administrators act, the same for all policies. Assumptions."""
DRAIN = 3600.0
"""Seconds for which a node takes no pods before a reboot: GKE and Nebius drain for up to an hour.
An assumption, the same for all policies."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a history is drawn from; the same parameters give the same history."""

    seed: int = 1
    nodes: int = 128
    """Of eight GPUs each."""
    days: int = 180
    app_rate: float = 1000.0
    """XIDs 13, 43 and 45 of applications per million GPU-hours: 300, 1,000 or 3,000."""
    mig_share: float = 0.1
    """Of nodes cut into seven slices per GPU; no published figure is known: an assumption."""
    no_action_share: float = 0.1
    """Of nodes whose driver is older than R565 and has no recovery action: an assumption."""
    lemon_share: float = 0.015
    """Of GPUs; published are 1 to 2 %."""
    lemon_events: float = 0.75
    """Share of memory events that lemons have; published are 50 to 99 %."""
    repair_median: float = 2.2 * 3600
    """Seconds from fault to repair, lognormal: Delta's mean recovery."""
    repair_sigma: float = 0.8
    """Puts the worst of some thousand repairs near 20 h, as seen on Delta."""
    churn: bool = True
    """NVSentinel#1710: 672 XID 45 on three nodes in three hours."""
    upgrade: bool = True
    """One driver upgrade of all nodes, one node a minute."""
    answers: Answers = "truly"
    """What drivers that have the recovery action answer for it."""
    sends_all: bool = True
    """NVML sends an event of every XID; else none of `UNSENT`. The same for all policies."""
    renumber_share: float = 0.0
    """Of nodes whose driver enumerates the GPUs anew: at each boot and upgrade, and once between a
    fault and its repair."""

    def in_words(self, form: str) -> str:
        """Return all parameters in one line, without those that say that nothing is unusual."""
        fields = msgspec.structs.asdict(self)
        for name, usual in (("renumber_share", 0.0), ("answers", "truly"), ("sends_all", True)):
            if fields[name] == usual:
                del fields[name]
        return ", ".join(
            f"{name} {value if isinstance(value, str) else format(value, form)}"
            for name, value in fields.items()
        )

    @property
    def gpu_days(self) -> float:
        return float(self.nodes * 8 * self.days)
