"""Draws the parameters of a replay: rates, shares and times, by seed and number. Pure.

Hardware faults are up to some hundred times as frequent as the published ones, so that a fleet of
eight nodes sees most kinds of fault within a month.
"""

import math
import random

import msgspec

from benchmarks.replay.rates import PROFILES, Assumptions, Kind, Parameters, Profile

HARDWARE = (1.0, 1000.0)
"""Events per million GPU-hours, for kinds that have no range of their own."""
RATES: dict[Kind, tuple[float, float]] = {"mmu": (100.0, 10_000.0), "silent": (0.1, 10.0)}
APPLICATION = (100.0, 10_000.0)
ABSENT = 0.1
"""Chance that a profile has none of a kind."""
REPAIR = (20 * 60.0, 24 * 3600.0)
BOOT = (60.0, 1800.0)
UPGRADE = (20.0, 3600.0)


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    number: int
    parameters: Parameters
    profile: Profile

    @property
    def again(self) -> str:
        """Return the command that plays this draw alone."""
        only = f"--seed {self.seed} --first {self.number} --draws 1"
        return f"python -m benchmarks.replay.drawn {only}"


def drawn(seed: int, number: int) -> Draw:
    """Return one draw; none needs those before it."""
    dice = random.Random(f"{seed} drawn {number}")  # noqa: S311 - no secret is drawn
    parameters = _parameters(dice)
    # A published profile with other rates and assumptions.
    profile = PROFILES[dice.choice(sorted(PROFILES))]
    rates: dict[Kind, float] = {}
    for kind in profile.rates:
        rate = _between(dice, *RATES.get(kind, HARDWARE))
        rates[kind] = 0.0 if dice.random() < ABSENT else rate
    profile = msgspec.structs.replace(profile, rates=rates, assumed=_assumptions(dice))
    # Drawn last, so that a draw has the same faults with and without it.
    parameters = msgspec.structs.replace(parameters, renumber_share=_share(dice))
    return Draw(seed=seed, number=number, parameters=parameters, profile=profile)


def _parameters(dice: random.Random) -> Parameters:
    return Parameters(
        seed=dice.randrange(1_000_000),
        nodes=dice.randint(4, 10),
        days=dice.randint(15, 40),
        app_rate=_between(dice, *APPLICATION),
        mig_share=_share(dice),
        no_action_share=_share(dice),
        lemon_share=_between(dice, 0.005, 0.2),
        lemon_events=dice.uniform(0.1, 0.99),
        repair_median=_between(dice, *REPAIR),
        repair_sigma=dice.uniform(0.2, 1.5),
        churn=dice.random() < 0.5,
        upgrade=dice.random() < 0.8,
    )


def _assumptions(dice: random.Random) -> Assumptions:
    return Assumptions(
        open_modules=_share(dice),
        no_xid=dice.random(),
        gsp_passes=dice.uniform(0.0, 0.5),
        nvlink_again=dice.uniform(0.0, 0.8),
        nvlink_ends=dice.random(),
        nvlink_spreads=dice.random(),
        crash_loop=dice.uniform(0.0, 0.2),
        boot=_between(dice, *BOOT),
        upgrade=_between(dice, *UPGRADE),
    )


def _share(dice: random.Random) -> float:
    """Return none, all or any part: fleets are often of one kind."""
    return dice.choice((0.0, 1.0, dice.random(), dice.random()))


def _between(dice: random.Random, low: float, high: float) -> float:
    """Return a random number that is uniform on a logarithmic scale."""
    return math.exp(dice.uniform(math.log(low), math.log(high)))
