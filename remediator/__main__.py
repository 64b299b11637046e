"""`python -m remediator`: makes the parts of the process, connects and runs them."""

import logging
import sys
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from time import monotonic, sleep

from kubeapi import clock
from kubeapi.client import ApiError, Client
from kubeapi.clock_offset import ServerClock
from kubeapi.election import Alone, Elector, new_identity
from remediator.controller.agents import DRIVERS, LEASE_NAME, VERSION
from remediator.controller.cluster_metrics import ClusterMetrics, cluster_rows
from remediator.controller.debug_plan import DebugPlan
from remediator.controller.loop import Loop
from remediator.controller.metrics import Metrics, Reading
from remediator.controller.observe import Cluster
from remediator.controller.policy_on_lease import Policies, PolicyOnLease
from remediator.controller.program import endpoint_of, run_program
from remediator.controller.rate_limit import Pace
from remediator.controller.workqueue import Queue
from remediator.freshness import clock_doubt
from remediator.metrics.brakes import brake_rows
from remediator.plan.events import Event
from remediator.plan.spending import usage
from remediator.policy.file import PolicyFile
from remediator.policy.table import Policy
from remediator.reconcile import Reconciler
from remediator.settings import Settings, parse
from serving.families import Rows
from serving.front import Handler, Request, Response
from serving.fronts import Fronts
from serving.message import probe_response
from serving.negotiation import Exposition, exposition

_log = logging.getLogger("remediator")
POLICY_LOOK = 1.0
"""Seconds between two looks at the policy file."""
HUNG_AFTER = 120.0
"""Seconds without a pass of the loop after which /healthz fails."""


DEBUG_PLAN = "/debug/plan"
UNSTATED = (
    "the eviction controller has written no status for a minute, so Draguard's rules have no "
    "effect: enable the feature gate DRADeviceTaintRules in kube-apiserver, kube-scheduler and "
    "kube-controller-manager"
)


class Remediator:
    """The process: caches, loop and page, started and stopped together."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._server_clock = settings, ServerClock()
        running = version("draguard")
        self._clock_doubt = ""
        """As last logged, "" while the clock is trusted."""
        self._queue = Queue()
        self._metrics = Metrics(running)
        self._policy_on_lease = PolicyOnLease(self._on_policy_change)
        self._policy_file = PolicyFile(
            settings.policy, before_change=self._policy_on_lease.on_policy_loaded
        )
        # Without a file, `load` never calls `before_change`.
        if settings.policy is None:
            self._policy_on_lease.on_policy_loaded(self._policy_file.policy)
        self._unstated: tuple[str, ...] = ()
        client = Client(
            endpoint_of(settings),
            agent=f"draguard-remediator/{running}",
            on_answer=self._metrics.count_answer,
            server_clock=self._server_clock,
        )
        self._cluster = Cluster(
            client,
            mark=self._queue.add,
            urgent=lambda node: self._queue.add(node, urgent=True),
            leading=lambda: self._elector.leading,
            pace=Pace(
                settings.writes_per_second,
                2 * settings.writes_per_second,
                has_urgent=self._queue.has_urgent,
            ),
            lease_namespace=settings.lease_namespace,
            stale_after=settings.stale_after,
            now=clock.now,
            hands_over=settings.handover.enabled,
            clock_doubt=lambda: clock_doubt(self._server_clock.ahead()),
            count=self._metrics.count_events,
            cluster_name=settings.cluster_name,
            drivers=settings.drivers,
        )
        self._informers = self._cluster.informers
        self._cluster_metrics = ClusterMetrics(lambda: self._informers.has_synced, self._rows)
        self._elector = self._make_elector(client)
        self._loop = Loop(
            Reconciler(self._cluster, self._policy, settings.handover),
            self._queue,
            self._metrics,
            now=clock.now,
            leading=lambda: self._elector.leading,
        )
        routes: dict[str, Handler] = {
            "/metrics": self._serve_metrics,
            "/healthz": self._serve_healthz,
            "/readyz": self._serve_readyz,
            DEBUG_PLAN: self._make_plan_page(),
        }
        self._fronts = Fronts(
            settings.listen,
            routes,
            health_listen=settings.health_listen,
            web_config=settings.web_config,
            # This page decides about up to a hundred nodes: one request at a time is enough.
            at_once={DEBUG_PLAN: 1},
        )

    def _make_plan_page(self) -> DebugPlan:
        name = self._settings.cluster_name
        return DebugPlan(self._cluster, self._policy, lambda: str(self._elector), clock.now, name)

    def _make_elector(self, client: Client) -> Elector | Alone:
        if not self._settings.leader_elect:
            return Alone(self._mark_all)
        return Elector(
            client,
            self._settings.lease_namespace,
            LEASE_NAME,
            identity=self._settings.leader_identity or new_identity(),
            now=clock.now,
            on_gain=self._on_started_leading,
            found=self._policy_on_lease.on_lease_found,
            notes=self._lease_annotations,
        )

    def _lease_annotations(self) -> dict[str, str]:
        """Return what the Lease records of its leader."""
        return {
            **self._policy_on_lease.annotations(),
            VERSION: version("draguard"),
            DRIVERS: ",".join(sorted(self._settings.drivers)),
        }

    def run(self) -> None:
        self._fronts.start()
        try:
            # Wait for a first good policy: the shipped one would remove the rules that stand.
            while not self._loop.is_stopped and not self._policy_file.ready:
                self._reload_policy()
                if not self._policy_file.ready:
                    sleep(POLICY_LOOK)
            # Wait until all collections were listed: before, what is missing only looks deleted.
            self._cluster.start()
            while not self._loop.is_stopped and not self._informers.has_synced:
                self._probe()
                if not self._informers.wait_synced(2.0):
                    _log.warning("waiting for the first lists: %s", self._informers.waiting_for())
                elif not self._informers.has_synced:
                    self._informers.emergency.look()
                    sleep(POLICY_LOOK)
            _log.info("caches are complete: %d nodes", len(self._cluster.cache.nodes()))
            self._elector.start()
            self._loop.schedule(POLICY_LOOK, self._reload_policy, "policy file")
            self._loop.schedule(self._settings.resync, self._resync, "resync")
            self._loop.run()
        finally:
            self._elector.stop()
            self._fronts.stop()
            self._cluster.stop()

    def stop(self) -> None:
        self._loop.stop()

    def _probe(self) -> None:
        try:
            self._cluster.probe()
        except ApiError as error:
            _log.warning("cannot read which versions are served: %s", error)

    def _policy(self) -> Policy:
        return self._policy_on_lease.policy_in_force(self._policy_file.policy)

    def _reload_policy(self) -> None:
        if self._policy_file.load():
            self._metrics.set_policy(self._policy_file.policy)
            self._mark_all()
        self._metrics.policy_bad.set(bool(self._policy_file.error))

    def _on_policy_change(self, at: datetime, before: Policies) -> None:
        """Note when more was permitted, and what before: one tuple, as another thread reads it."""
        self._cluster.policy_change = (at, before)

    def _resync(self) -> None:
        self._probe()
        self._look_whether_rules_work()
        self._look_at_the_clock()
        nodes = self._cluster.cache.nodes()
        # A replica that does not lead decides nothing, so its counts would only grow old.
        self._metrics.forget(nodes if self._elector.leading else ())
        self._loop.forget(nodes)
        self._mark_all()

    def _look_whether_rules_work(self) -> None:
        """Log once when no component acts on our rules."""
        unstated = self._informers.rules_without_status() or ()
        if unstated and not self._unstated:
            _log.error("%s: %s", ", ".join(unstated[:3]), UNSTATED)
        if self._elector.leading:
            for incident in self._cluster.incidents_of(unstated):
                self._cluster.post(
                    Event(
                        "DeviceIncident",
                        incident.name,
                        incident.metadata.uid,
                        "RulesWithoutEffect",
                        UNSTATED,
                    ),
                    clock.now(),
                )
        self._unstated = unstated

    def _look_at_the_clock(self) -> None:
        """Log once when our clock is not to be trusted, and when it is again."""
        ahead = self._server_clock.ahead()
        before, self._clock_doubt = self._clock_doubt, clock_doubt(ahead)
        if self._clock_doubt and not before:
            why, seconds = self._clock_doubt, ahead.total_seconds()
            _log.error(
                "nothing is untainted and no eviction begins: %s ahead_seconds=%.1f", why, seconds
            )
        elif before and not self._clock_doubt:
            _log.info("the clock is trusted again ahead_seconds=%.1f", ahead.total_seconds())

    def _on_started_leading(self) -> None:
        """Begin to lead: read anew what another leader may have written."""
        self._cluster.writer.conditions.look_again()
        self._cluster.takeover.on_started_leading()
        self._mark_all()

    def _mark_all(self) -> None:
        for node in self._cluster.cache.choose_nodes():
            self._queue.add(node)

    def _serve_metrics(self, request: Request) -> Response:
        cache, kind = self._cluster.cache, exposition(request.accept)
        page = self._metrics.snapshot(
            incidents=cache.incidents(),
            rules=cache.rules(),
            reading=self._reading(),
            rows=self._cluster_metrics.rows(),
            openmetrics=kind is Exposition.OPENMETRICS,
        )
        return Response(200, kind.value, page)

    def _rows(self) -> Rows:
        fleet, policy, now = self._cluster.fleet(), self._policy(), clock.now()
        limits, brakes = usage(fleet, policy.limits, now), brake_rows(fleet, policy, now)
        stale, unread = self._cluster.stale_agents(), self._informers.unread_counts()
        return cluster_rows(self._cluster.cache, stale, limits, brakes, unread)

    def _reading(self) -> Reading:
        watches, now = self._informers.reflectors(), monotonic()
        unstated = self._informers.rules_without_status()
        evictions = self._cluster.writer.evictions
        return Reading(
            leading=self._elector.leading,
            queued=len(self._queue),
            queue_age=self._queue.age(),
            watch_ages={
                watch.resource: now - watch.last_contact for watch in watches if watch.synced
            },
            untrusted={kind: bool(why) for kind, why in self._cluster.blind_kinds().items()},
            undecodable=sum(watch.undecodable for watch in watches),
            rules_served=self._informers.rules.version is not None,
            clock_ahead=(
                self._server_clock.ahead().total_seconds() if self._server_clock.known else None
            ),
            policy_disagrees=self._elector.leading and bool(self._policy().disagrees),
            statuses_refused=self._cluster.writer.statuses_refused,
            rules_without_status=None if unstated is None else len(unstated),
            evictions={
                "granted": evictions.accepted,
                "refused": evictions.refused,
                "failed": evictions.failed,
            },
        )

    def _serve_healthz(self, _: Request) -> Response:
        age = monotonic() - self._loop.last_pass
        dead = [str(reflector) for reflector in self._informers.reflectors() if reflector.dead]
        if dead:
            return probe_response(False, f"a watch has ended: {', '.join(dead)}")  # noqa: FBT003 - see probe_response
        if self._elector.dead:
            return probe_response(False, "the leader election has ended")  # noqa: FBT003 - see probe_response
        # The loop starts only when everything was listed.
        alive = age < HUNG_AFTER or not self._informers.has_synced
        return probe_response(alive, f"the last pass of the loop was {age:.0f} s ago")

    def _serve_readyz(self, _: Request) -> Response:
        if not self._policy_file.ready:
            why = self._policy_file.error or "the policy file has not stayed the same yet"
            return probe_response(False, why)  # noqa: FBT003 - see probe_response
        if not self._informers.has_synced:
            why = f"not everything is listed yet: {self._informers.waiting_for()}"
            return probe_response(False, why)  # noqa: FBT003 - see probe_response
        return probe_response(True, f"every collection was listed; {self._elector}")  # noqa: FBT003 - see probe_response


def main(arguments: Sequence[str] | None = None) -> int:
    settings = parse(arguments)
    return run_program(lambda: Remediator(settings), _log, settings)


if __name__ == "__main__":
    sys.exit(main())
