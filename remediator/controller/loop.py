# pyright: basic
# apscheduler carries no types.
"""The loop: dirty nodes are reconciled at once, all of them again on a timer.

There is one worker, so that each decision sees the writes of the one before it and no budget is
spent twice. A reconcile that fails is retried with backoff; no error of one node stops the others.
While another replica leads, nodes are taken and dropped: a new leader looks at all of them.
"""

import logging
from collections.abc import Callable, Collection
from datetime import datetime
from textwrap import shorten
from time import monotonic

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.schedulers.background import BackgroundScheduler

from kubeapi.client import ApiError, Conflict, NotFound
from remediator.controller.apply import NotLeadingError, RulesNotServedError
from remediator.controller.metrics import Metrics
from remediator.controller.rate_limit import PacedError
from remediator.controller.workqueue import Queue
from remediator.diagnose.fault import of_bug
from remediator.plan.node_decision import Bug, NodeDecision
from remediator.plan.steps import ChangeRule, CreateRule, EvictPod
from remediator.reconcile import Reconciler, StepsFailedError

_log = logging.getLogger(__name__)
FIRST_RETRY = 0.25
LONGEST_SENTENCE = 4000
"""Characters of one line of the log; eight sick GPUs need half of them."""
LONGEST_RETRY = 30.0
MOST_BUGS = 64
"""Faults of one node that are remembered as logged: a report can name ever new GPUs."""
EVICT_AGAIN = 2.0
"""Seconds to the next look at a node whose pods are being evicted; a refusal waits for longer."""


def retry_after(failures: int) -> float:
    """Return the seconds to wait after so many failures in a row before this one."""
    # The exponent is bounded: after hours of failures 2 ** n would not fit into a float.
    return min(FIRST_RETRY * 2 ** min(failures, 16), LONGEST_RETRY)


class Loop:
    """Runs the reconciler until stopped."""

    def __init__(
        self,
        reconciler: Reconciler,
        queue: Queue,
        metrics: Metrics,
        *,
        now: Callable[[], datetime],
        leading: Callable[[], bool] = lambda: True,
    ) -> None:
        self._reconciler = reconciler
        self._queue = queue
        self._leading = leading
        self._metrics = metrics
        self._now = now
        self._failures: dict[str, int] = {}
        self._logged: dict[str, str] = {}
        self._bugs: dict[str, dict[Bug, None]] = {}
        """What was logged with its trace, by node, the oldest first."""
        self._stopping = False
        """A plain value: it is set by a signal handler, which may take no lock."""
        self._scheduler = BackgroundScheduler(timezone="UTC")
        self._scheduler.add_listener(self._on_job_failed, EVENT_JOB_ERROR | EVENT_JOB_MISSED)
        self.last_pass = monotonic()
        """When the worker last began to wait for a node; /healthz fails when that is long ago."""

    def schedule(self, seconds: float, job: Callable[[], object], name: str) -> None:
        """Run `job` now and then every `seconds`; while a run lasts, further ones are skipped."""
        self._scheduler.add_job(
            job,
            "interval",
            seconds=seconds,
            id=name,
            next_run_time=self._now(),  # the first run would otherwise wait a whole interval
            misfire_grace_time=None,  # the default of 1 s drops ticks in a busy process
            coalesce=True,
            max_instances=1,
        )

    def run(self) -> None:
        """Work until `stop`."""
        self._scheduler.start()
        try:
            while not self._stopping:
                self.last_pass = monotonic()
                node = self._queue.take(timeout=0.5)
                if node is not None:
                    self._reconcile(node)
        finally:
            self._scheduler.shutdown(wait=False)

    def stop(self) -> None:
        self._stopping = True

    @property
    def is_stopped(self) -> bool:
        return self._stopping

    def _reconcile(self, node: str) -> None:
        if not self._leading():
            return
        started = monotonic()
        try:
            decision = self._reconciler.reconcile(node, self._now())
        except StepsFailedError as failed:
            self._on_failed(node, failed.error)
            # In addition to the retry, whose backoff would make the other GPUs late.
            self._wake(node, failed.wake_at)
        except Exception as error:  # noqa: BLE001 - one node's bug must not stop the others
            self._on_failed(node, error)
        else:
            self._on_done(node, decision, monotonic() - started)

    def _on_failed(self, node: str, error: Exception) -> None:
        """Count what went wrong, and look at the node again."""
        match error:
            case NotLeadingError():
                self._metrics.reconciles.labels("dropped").inc()
            case PacedError():
                self._metrics.reconciles.labels("paced").inc()
                self._queue.add(node, error.seconds)
            case Conflict() | NotFound():
                self._metrics.reconciles.labels("superseded").inc()
                _log.info("%s: write conflict, requeued: %s", node, error)
                self._retry(node)
            case ApiError() | RulesNotServedError():
                self._metrics.reconciles.labels("failed").inc()
                _log.warning("%s: %s; trying again", node, error)
                self._retry(node, getattr(error, "retry_after", 0.0))
            case _:
                self._metrics.reconciles.labels("bug").inc()
                self._log_bugs(node, (Bug("", of_bug(error).bug),))
                self._retry(node)

    def _on_done(self, node: str, decision: NodeDecision, took: float) -> None:
        self._failures.pop(node, None)
        self._metrics.count_decision(decision)
        self._metrics.duration.observe(took)
        # It quotes text of others, which must not add lines to this log.
        sentence = shorten(decision.sentence, LONGEST_SENTENCE, placeholder=" ...")
        sentence = "".join(character if character.isprintable() else "?" for character in sentence)
        level = logging.DEBUG if self._logged.get(node) == sentence else logging.INFO
        self._logged[node] = sentence
        _log.log(level, "%s", sentence)
        self._log_bugs(node, decision.bugs)
        if any(isinstance(step, EvictPod) and not step.unhurried for step in decision.steps):
            self._queue.add(node, EVICT_AGAIN)
        taints = any(isinstance(step, CreateRule | ChangeRule) for step in decision.steps)
        self._wake(node, decision.wake_at, urgent=taints)

    def _wake(self, node: str, at: datetime | None, *, urgent: bool = False) -> None:
        if at is not None:
            wait = (at - self._now()).total_seconds()
            self._queue.add(node, max(wait, 0.01), urgent=urgent)

    def _retry(self, node: str, at_least: float = 0.0) -> None:
        failures = self._failures.get(node, 0)
        self._failures[node] = failures + 1
        self._queue.add(node, max(retry_after(failures), min(at_least, LONGEST_RETRY)))

    def forget(self, nodes: Collection[str]) -> None:
        """Forget what is remembered of nodes other than these."""
        for memory in (self._failures, self._logged, self._bugs):
            for node in [name for name in list(memory) if name not in nodes]:
                memory.pop(node, None)

    def _log_bugs(self, node: str, found: tuple[Bug, ...]) -> None:
        """Log what went wrong, each fault of a GPU or of the node once; the others go on."""
        logged = self._bugs.setdefault(node, {}) if found else {}
        for bug in found:
            # A bug is known by the place of its trace: the message may differ each time.
            lines = bug.trace.splitlines()
            kind = lines[-1].partition(":")[0] if lines else ""
            frames = [line for line in lines if line.startswith('  File "')]
            place = Bug(bug.uuid, "\n".join((*frames, kind)))
            if place in logged:
                continue
            logged[place] = None
            about = f"{node} {bug.uuid}".rstrip()
            _log.error("%s: this is a bug, please report it; others go on\n%s", about, bug.trace)
        for oldest in list(logged)[:-MOST_BUGS]:
            del logged[oldest]

    def _on_job_failed(self, event: JobExecutionEvent) -> None:
        self._metrics.jobs_failed.inc()
        _log.error("timer %s: %s", event.job_id, getattr(event, "exception", None) or "missed")
