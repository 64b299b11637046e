"""`draguard explainer`: says why claims wait, by metrics and Events, beside the remediator.

One look after the other, by the replica that leads: a snapshot of what is watched, where each pod
stands, the rows of metrics, and the Events that are new. Nothing here writes anything but Events
and its own Lease.
"""

import logging
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from time import monotonic

from allocation.answers import Answers, OutOfTimeError
from allocation.explainer import tenant_events
from allocation.explainer.claim_states import claim_states, consumers, missing_claims
from allocation.explainer.findings import Findings
from allocation.explainer.metrics import LookReading, Metrics, Reading
from allocation.explainer.observe import Observer
from allocation.explainer.remarks import PodRemarks
from allocation.explainer.rows import Progress, claim_rows
from allocation.explainer.settings import Settings, parse
from allocation.explainer.tenant_events import Reporter, TenantEvent
from allocation.explainer.turns import in_turn
from allocation.plugin import classes_of_resources
from allocation.selectors.evaluator import Evaluator
from kubeapi import clock
from kubeapi.client import ApiError, Client
from kubeapi.election import Alone, Elector, new_identity
from kubeapi.event_recorder import EventRecorder
from remediator.controller.program import endpoint_of, run_program
from remediator.controller.rate_limit import Pace
from remediator.model.taint_rule import labels_of_cluster
from serving.front import Handler, Request, Response
from serving.fronts import Fronts
from serving.message import probe_response
from serving.negotiation import Exposition, exposition

_log = logging.getLogger("explainer")
LEASE_NAME = "draguard-explainer"
BETWEEN = 2.0
"""Seconds between two looks, at the least; a look that takes longer is followed by as long a rest,
so that half of a core is used at the most."""
BUDGET = 5.0
"""Seconds of one look for computations of what becomes of claims."""
PROBED_EVERY = 60.0
"""Seconds between two readings of which versions are served."""
MOST_ANSWERS = 500_000
"""Of slices and selectors that are remembered, some 150 MB."""
LONGEST = 20.0
"""Seconds of one look after which what is not computed yet is not known."""
WAITING = 200
"""Events that may wait to be posted: little, so that each namespace gets its turn at each look."""
REMEMBERED = 50_000
"""Events: two of each pod that waits, and more."""
EVENTS_PER_SECOND, EVENTS_AT_ONCE = 5.0, 50.0
HUNG_AFTER = 300.0
"""Seconds without an end of a look after which /healthz fails."""


class Explainer:
    """The process: watches, looks and page, started and stopped together."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        running = version("draguard")
        self._metrics = Metrics(running)
        client = Client(
            endpoint_of(settings),
            agent=f"draguard-explainer/{running}",
            on_answer=self._metrics.count_answer,
        )
        self._client, self._observer = client, Observer(client, clock.now)
        self._remarks = PodRemarks(client, self._observer)
        self._pace = Pace(EVENTS_PER_SECOND, EVENTS_AT_ONCE)
        labels = labels_of_cluster(settings.cluster_name)
        self._recorder = EventRecorder[TenantEvent](
            client,
            as_object=partial(tenant_events.as_object, labels=labels),
            # Only the leader posts, while it trusts what it saw; and each Event is charged.
            turn=lambda: self._pace.ask() if self._may_show() else 1.0,
            on_result=self._metrics.count_event,
            waiting=WAITING,
            remembered=REMEMBERED,
        )
        self._elector: Elector | Alone = (
            Elector(
                client,
                settings.lease_namespace,
                LEASE_NAME,
                identity=settings.leader_identity or new_identity(),
                now=clock.now,
                on_gain=lambda: None,
            )
            if settings.leader_elect
            else Alone(lambda: None)
        )
        self._begin()
        self._answers: tuple[object, Answers] | None = None
        self._evaluator = Evaluator()
        self._evaluator.check = self._check
        self._stopping = threading.Event()
        self._passed_at = monotonic()
        self._looked_at: float | None = None
        """When the last look was finished, or the first one was due; None: it does not look."""
        self._until = 0.0
        self._probed_at = float("-inf")
        routes: dict[str, Handler] = {
            "/metrics": self._serve_metrics,
            "/healthz": self._serve_healthz,
            "/readyz": self._serve_readyz,
        }
        self._fronts = Fronts(
            settings.listen,
            routes,
            health_listen=settings.health_listen,
            web_config=settings.web_config,
            at_once={},
        )

    def _begin(self) -> None:
        """Begin anew: what happened while this replica did not look is not known."""
        self._findings, self._progress = Findings(monotonic), Progress()
        self._reporter = Reporter(timedelta(seconds=self._settings.event_after))
        self._recorder.forget()

    def run(self) -> None:
        self._fronts.start()
        try:
            self._recorder.start()
            self._observer.start()
            self._elector.start()
            while not self._stopping.is_set():
                begun = monotonic()
                try:
                    if begun - self._probed_at > PROBED_EVERY:
                        self._observer.probe()
                        self._probed_at = begun
                except ApiError as error:
                    _log.warning("cannot read which versions are served: %s", error)
                self._look_if_possible()
                self._passed_at = monotonic()
                self._stopping.wait(max(BETWEEN, self._passed_at - begun))
        finally:
            self._elector.stop()
            self._fronts.stop()
            self._recorder.stop()
            self._observer.stop()
            self._remarks.close()
            self._evaluator.close()
            self._client.close()

    def stop(self) -> None:
        self._stopping.set()

    def _look_if_possible(self) -> None:
        """Look, unless another replica leads or something cannot be trusted."""
        if not self._may_show():
            self._begin()
            self._looked_at = None
            self._metrics.show(None)
            return
        if self._looked_at is None:
            # From here on a look is missing.
            self._looked_at = monotonic()
        try:
            self._look(monotonic())
        except Exception:  # noqa: BLE001 - the next look may end well; a metric counts the others
            _log.exception("a look failed: this is a bug, please report it")
            self._metrics.count_failed_look()
            self._metrics.show(None)

    def _may_show(self) -> bool:
        trusted = not any(self._observer.distrust_by_kind().values())
        return trusted and self._elector.leading and not self._stopping.is_set()

    def _look(self, begun: float) -> None:
        snapshot = self._observer.snapshot()
        pods, claims, classes = snapshot.pods.values(), snapshot.claims, snapshot.inventory.classes
        self._remarks.read(pods, claims, snapshot.at)
        slices, known = snapshot.inventory.slices, self._answers
        # Remembered while the same is published.
        if known is None or known[0] is not slices or len(known[1]) > MOST_ANSWERS:
            known = self._answers = slices, Answers(self._evaluator.evaluate, self._check)
        self._until = begun + LONGEST
        look = self._findings.look(snapshot, known[1], self._remarks, BUDGET)
        if look.errors:
            report = "a pod could not be explained, %d in all: this is a bug, please report it"
            _log.error(report, len(look.errors), exc_info=look.errors[0])
            self._metrics.count_failed_look()
        states = [
            *claim_states(claims, consumers(pods, claims), look.findings),
            *missing_claims(pods, claims, look.findings, classes_of_resources(classes)),
        ]
        steps = [*self._progress.look(states, snapshot.at)]
        names = [each.metadata.name for each in classes]
        found = claim_rows(states, self._progress.since(), snapshot.at, names)
        oldest = (snapshot.at - look.oldest).total_seconds() if look.oldest else 0.0
        if not self._may_show():
            return
        for step in steps:
            self._metrics.observe(*step)
        self._metrics.show(
            LookReading(
                rows=found.rows,
                dropped=found.dropped,
                seconds=monotonic() - begun,
                unexplained=look.unexplained,
                reason_age=oldest,
            )
        )
        self._looked_at = monotonic()
        news = self._reporter.look(pods, claims, look.findings, snapshot.at)
        # What was posted before takes no turn of what is new.
        turns = in_turn(self._recorder.due(news), lambda event: event.namespace)
        for event in turns if self._settings.events else ():
            self._recorder.record(event, snapshot.at)

    def _check(self, size: int = 0) -> None:
        """Raise OutOfTimeError where a look takes too long or remembers too much, or at the end."""
        if self._stopping.is_set() or monotonic() > self._until:
            raise OutOfTimeError("its selectors take too long to evaluate")
        if size > 2 * MOST_ANSWERS:
            raise OutOfTimeError("its selectors have too many answers")

    def _serve_metrics(self, request: Request) -> Response:
        kind, now = exposition(request.accept), monotonic()
        if not self._may_show():
            # The last look was as leader, and trusted what it saw.
            self._metrics.show(None)
        watches = self._observer.reflectors()
        reading = Reading(
            leading=self._elector.leading,
            watch_ages={each.resource: now - each.last_contact for each in watches if each.synced},
            untrusted={name: bool(why) for name, why in self._observer.distrust_by_kind().items()},
            undecodable=sum(each.undecodable for each in watches),
            look_age=None if self._looked_at is None else now - self._looked_at,
            evaluator_starts=self._evaluator.starts,
        )
        page = self._metrics.page(reading, openmetrics=kind is Exposition.OPENMETRICS)
        return Response(200, kind.value, page)

    def _serve_healthz(self, _: Request) -> Response:
        dead = [str(each) for each in self._observer.reflectors() if each.dead]
        if dead or self._elector.dead:
            what = ", ".join(dead) or "the leader election"
            return probe_response(False, f"ended: {what}")  # noqa: FBT003 - see probe_response
        age = monotonic() - self._passed_at
        return probe_response(age < HUNG_AFTER, f"the last pass ended {age:.0f} s ago")

    def _serve_readyz(self, _: Request) -> Response:
        doubts = [why for why in self._observer.distrust_by_kind().values() if why]
        if doubts:
            return probe_response(False, "; ".join(doubts))  # noqa: FBT003 - see probe_response
        return probe_response(True, f"every collection was listed; {self._elector}")  # noqa: FBT003 - see probe_response


def main(arguments: Sequence[str] | None = None) -> int:
    settings = parse(arguments)
    return run_program(lambda: Explainer(settings), _log, settings)


if __name__ == "__main__":
    sys.exit(main())
