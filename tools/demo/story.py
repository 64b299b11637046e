"""Plays the acts in order, and checks each until its expectations hold or its time is up."""

import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from tools.demo.acts import Act, NoTargetError
from tools.demo.diary import Entry, News
from tools.demo.expectations import Acted, Check, Outcome
from tools.demo.picture import Picture, Seat
from tools.demo.stage import Stage
from tools.demo.watching import page, xid_counts

_PAUSE = 0.1


class Scene(msgspec.Struct, frozen=True):
    """What there is to show now."""

    at: float
    picture: Picture
    entries: tuple[Entry, ...]
    """Since the first act."""
    title: str = ""
    tells: str = ""
    checks: tuple[Check, ...] = ()


class Audience(Protocol):
    """The receiver of scenes and outcomes while the acts are played."""

    def show(self, scene: Scene) -> None: ...

    def end_act(self, outcome: Outcome) -> None: ...


class Story:
    """One playing of the acts on a stage that is open."""

    def __init__(self, stage: Stage, audience: Audience, soak: float, rest: float = 0.0) -> None:
        self._stage = stage
        self._audience = audience
        self._soak = soak
        self._rest = rest
        """Seconds to look at the end of each act."""
        self._first = len(stage.watching.entries())

    def play(self, acts: Sequence[Act]) -> list[Outcome]:
        """Play the acts; after one that fails, the others are skipped, as they build on it."""
        outcomes: list[Outcome] = []
        target: Seat | None = None
        for number, act in enumerate(acts, 1):
            if outcomes and not outcomes[-1].good:
                outcomes.append(Outcome(act.title, problem="not played, after what went wrong"))
                continue
            outcome = self._play(f"Act {number} of {len(acts)}: {act.title}", act, target)
            target = outcome.acted.target if outcome.acted else target
            self._audience.end_act(outcome)
            outcomes.append(outcome)
        return outcomes

    def _play(self, title: str, act: Act, last: Seat | None) -> Outcome:
        watching = self._stage.watching
        before = watching.picture()
        try:
            target = act.target(before, last)
            received = len(watching.entries())
            tells = act.tells.format(
                device=target.name,
                node=target.node,
                pod=target.holder.pod if target.holder else "nobody",
            )
            watching.tell([News(column="story", kind="act", text=f"{title}. {tells}")])
            began = self._stage.now()
            act.play(self._stage, target)
        except NoTargetError as error:
            return Outcome(act.title, problem=str(error))
        first = Acted(
            target=target,
            before=before,
            now=before,
            entries=(),
            began=began,
            at=began,
            soak=self._soak,
        )
        return self._watch(act, first, received, Scene(began, before, (), title, tells))

    def _watch(self, act: Act, first: Acted, received: int, scene: Scene) -> Outcome:
        held_since: float | None = None
        while True:
            acted = self._look(first, received)
            checks = tuple(
                Check(expectation.words(first.target), expectation.question(acted))
                for expectation in act.expects
            )
            self._show(scene, acted, checks)
            good = not any(check.seen for check in checks)
            held_since = (held_since or acted.at) if good else None
            done = held_since is not None and acted.at - held_since >= act.lasts
            if done or acted.at - acted.began > act.patience + self._soak:
                until = self._stage.now() + self._rest
                while self._stage.now() < until:
                    self._show(scene, self._look(first, received), checks)
                    time.sleep(_PAUSE)
                return Outcome(act.title, acted, checks)
            self._stage.programs.check()
            time.sleep(_PAUSE)

    def _look(self, first: Acted, received: int) -> Acted:
        watching = self._stage.watching
        port = self._stage.ports[f"exporter {first.target.node}"]
        return msgspec.structs.replace(
            first,
            now=watching.picture(),
            entries=watching.entries()[received:],
            at=self._stage.now(),
            counted=xid_counts(page(port)),
        )

    def _show(self, scene: Scene, acted: Acted, checks: tuple[Check, ...]) -> None:
        self._audience.show(
            msgspec.structs.replace(
                scene,
                at=acted.at,
                picture=acted.now,
                entries=self._stage.watching.entries()[self._first :],
                checks=checks,
            )
        )
