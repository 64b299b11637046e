"""Writes the node's report: adopts its last one, then tells what changed.

A change is written at once, in a storm no more than one a second; without changes
every quarter of an hour (`write_pace`). Between reports the Lease is renewed, only after a fresh
observation and with the hash of what was observed, so that each renewal confirms the report.
A write that fails is counted and tried again with the newest report, so nothing is lost by
it; why it fails is a state (`acceptance`). One that is refused as invalid is written smaller at
once (`reduced_report`), so that one odd value stops no other news.
"""

import logging
import threading
import time
from collections.abc import Callable

import msgspec

from exporter.agent.report import acceptance, outline
from exporter.agent.report.reduced_report import Sizing, reduced
from exporter.agent.report.stored_report import StoredReport
from exporter.agent.report.write_pace import Pace
from exporter.model.node_health import REPORT_HASH, NodeHealth, SourceHealth
from exporter.self_metrics import SelfMetrics
from exporter.settings import Settings
from kubeapi import clock, lease
from kubeapi.client import UNREADABLE, ApiError, Client, NotFound

_log = logging.getLogger(__name__)

_BACK_OFF = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_MISSING_RETRY = 30.0
"""Seconds, while the CRD is not installed."""
_LEASE_LOOK = 1.0
"""Seconds between two looks whether reports are accepted again."""
_LEASE_DURATIONS = 4
"""A Lease counts as old after this many missed renewals, as kubelets do."""
_INVALID = 422
_LEAST_BYTES = 16 << 10
"""A server that finds even this too large has another reason."""


class Reporter:
    """One thread that writes, one that renews the Lease."""

    def __init__(
        self,
        settings: Settings,
        client: Client,
        metrics: SelfMetrics,
        on_adopted: Callable[[NodeHealth | None], None],
    ) -> None:
        self._settings = settings
        self._client = client
        self._metrics = metrics
        self._on_adopted = on_adopted
        self._stored = StoredReport(client, settings.node_name)
        self._news = threading.Condition()
        self._newest: NodeHealth | None = None
        self._fresh = False
        self._stopping = threading.Event()
        self._failures = 0
        self._limit = outline.MAX_BYTES
        self._sizing = Sizing(settings.report_interval / 2)
        self._state = acceptance.STARTED
        self._logged = ""
        """Reason of the state that was logged last."""
        self._refusal = ""
        """What the server said to the last report that it found invalid."""
        self._accepted = threading.Event()
        """The newest write was accepted."""
        self._observed = threading.Event()
        """The node was observed since the Lease was last renewed, or its sensor is known to be
        away and the report says so."""
        self._threads = [
            threading.Thread(target=self._run, name="reporter", daemon=True),
            threading.Thread(target=self._stay_alive, name="lease", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._news:
            self._news.notify_all()
        self._client.abort()
        for thread in self._threads:
            thread.join(3.0)

    def offer(self, report: NodeHealth) -> None:
        """Take the newest report; the one before it is forgotten."""
        with self._news:
            self._newest = report
            self._fresh = True
            self._news.notify_all()

    def observed(self) -> None:
        """Take note of a fresh look at the node: only these let the Lease be renewed."""
        self._observed.set()

    def forget(self) -> None:
        """Take back the offered report, and the look: they are of before it was known what counts.

        Call it where no thread can offer meanwhile: that report would overwrite the stored one.
        """
        with self._news:
            self._newest = None
        self._observed.clear()

    def source(self) -> SourceHealth:
        """Return whether reports are accepted, as a source of the page."""
        return self._state

    def _run(self) -> None:
        if not self._adopt():
            return
        pace = Pace(self._settings.report_interval)
        while (report := self._await(pace.due)) is not None:
            finished = outline.finished(report, self._limit)
            key = outline.change_key(finished)
            begun = time.monotonic()
            if not pace.wants(key, begun):
                continue
            self._sizing.look(begun)
            pause = self._write(finished)
            if pause == 0.0:
                pause = pace.accepted(key, begun) - time.monotonic()
            else:
                pace.refused()
            self._stopping.wait(max(0.0, pause))

    def _sealed(self, report: NodeHealth) -> NodeHealth:
        """Return a report as it is written now, with the hash that the Lease confirms it by."""
        interval = max(1, round(self._settings.report_interval))
        report = msgspec.structs.replace(report, report_interval_seconds=interval)
        report = reduced(report, self._sizing.size)
        return msgspec.structs.replace(report, content_hash=outline.content_hash(report))

    def _await(self, due: float) -> NodeHealth | None:
        """Wait for a newer report, or until the one there is due again; None when stopping."""
        with self._news:
            self._news.wait_for(lambda: self._newest is not None or self._stopping.is_set())
            left = due - time.monotonic()
            if left > 0:
                self._news.wait_for(lambda: self._fresh or self._stopping.is_set(), left)
            self._fresh = False
            return None if self._stopping.is_set() else self._newest

    def _adopt(self) -> bool:
        """Read this node's own last report; False when stopping."""
        while not self._stopping.is_set():
            try:
                last = self._stored.read()
            except NotFound:
                last = None
            except UNREADABLE as error:
                _log.warning("this node's last report cannot be read and is begun anew: %s", error)
                last = None
            except ApiError as error:
                self._stopping.wait(self._fail(error))
                continue
            self._failures = 0
            self._on_adopted(last)
            return True
        return False

    def _write(self, report: NodeHealth) -> float:
        """Write one report; returns the seconds to wait, 0 when it was accepted."""
        warnings: list[str] = []
        while True:
            try:
                self._stored.write(self._sealed(report), warnings.append)
                break
            except ApiError as error:
                if error.status != _INVALID or not self._sizing.refused(time.monotonic()):
                    return self._fail(error)
                _log.warning("the report is written as %s: %s", self._sizing.size, error.message)
                self._refusal = error.message
                self._metrics.report_reductions.labels(self._sizing.size).inc()
        self._failures = 0
        self._metrics.report_writes.inc()
        self._metrics.report_up.set(1)
        self._metrics.report_fields_dropped.set(len(acceptance.fields_dropped(warnings)))
        self._metrics.report_success.set(clock.now().timestamp())
        # Last: who sees the state finds the figures that belong to it.
        if self._sizing.size == "Whole":
            self._tell(acceptance.accepted(warnings, clock.now()))
        else:
            self._tell(acceptance.reduced(self._sizing.size, self._refusal, clock.now()))
        self._accepted.set()
        return 0.0

    def _fail(self, error: ApiError) -> float:
        self._accepted.clear()
        self._metrics.report_up.set(0)
        self._metrics.report_failures.labels(str(error.status or "unreachable")).inc()
        self._tell(acceptance.refused(error.status, error.message, self._state))
        if self._state.reason == acceptance.TOO_LARGE:
            self._limit = max(_LEAST_BYTES, self._limit // 2)
        self._failures += 1
        if isinstance(error, NotFound):
            return min(_MISSING_RETRY, self._settings.report_interval)
        return max(error.retry_after, _BACK_OFF[min(self._failures, len(_BACK_OFF)) - 1])

    def _tell(self, state: SourceHealth) -> None:
        """Keep the state, and log it when it is another one than before."""
        self._state = state
        if state.reason == self._logged:
            return
        if state.message:
            _log.warning("%s", state.message)
        else:
            _log.info("reports are accepted again")
        self._logged = state.reason

    def _stay_alive(self) -> None:
        """Renew the Lease while reports are accepted and the node is observed.

        A renewal confirms the stored report. So an agent whose reports are not accepted must not
        renew, and neither must this thread while the agent's loop hangs.
        """
        name = f"draguard-agent-{self._settings.node_name}"
        duration = max(1, int(_LEASE_DURATIONS * self._settings.lease_interval))
        logged = ""
        while not self._stopping.is_set():
            if not (self._accepted.wait(_LEASE_LOOK) and self._observed.wait(_LEASE_LOOK)):
                continue
            self._observed.clear()
            now = clock.now()
            with self._news:
                newest = self._newest
            newest_hash = ""
            if newest is not None:
                newest_hash = self._sealed(outline.finished(newest, self._limit)).content_hash
            try:
                lease.renew(
                    self._client,
                    self._settings.lease_namespace,
                    name,
                    self._settings.node_name,
                    duration,
                    now,
                    {REPORT_HASH: newest_hash},
                )
                logged = ""
            except ApiError as error:
                self._metrics.lease_failures.inc()
                if error.message != logged and not self._stopping.is_set():
                    _log.warning("the agent's Lease is not renewed: %s", error.message)
                logged = error.message
                self._observed.set()
            self._stopping.wait(self._settings.lease_interval)
