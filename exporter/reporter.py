"""Writes the node's report: adopts its last one, then tells what changed.

A change is written at once, in a storm no more than one a second; without changes
every quarter of an hour. A write that fails is counted and tried again with the newest
report, so nothing is lost by it.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from exporter import outline
from exporter.report import API_GROUP, API_VERSION, NodeDeviceHealth, NodeHealth
from exporter.self_metrics import SelfMetrics
from exporter.settings import Settings
from kubeapi import clock, lease
from kubeapi.client import ApiError, Client, Conflict, NotFound

_log = logging.getLogger(__name__)

COLLECTION = f"/apis/{API_GROUP}/{API_VERSION}/nodedevicehealths"

_PACE = ((2, 1.0), (3, 3.0))
"""At most so many writes in so many seconds: an XID, the recovery action read after it and the
event that names its slice follow each other quickly, and a storm is one write a second."""
_BACK_OFF = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_MISSING_RETRY = 30.0
"""Seconds, while the CRD is not installed."""
_LEASE_LOOK = 1.0
"""Seconds between two looks whether reports are accepted again."""
_LEASE_DURATIONS = 4
"""A Lease counts as old after this many missed renewals, as kubelets do."""

_NOT_INSTALLED = (
    "the cluster does not serve NodeDeviceHealth, so only metrics are given: install it with "
    "`kubectl apply -f deploy/crds`"
)


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
        self._path = f"{COLLECTION}/{settings.node_name}"
        self._news = threading.Condition()
        self._newest: NodeHealth | None = None
        self._fresh = False
        self._stopping = threading.Event()
        self._failures = 0
        self._complaint = ""
        self._accepted = threading.Event()
        """The newest write was accepted."""
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

    def _run(self) -> None:
        if not self._adopt():
            return
        written: object = None
        due = 0.0
        begins: deque[float] = deque(maxlen=max(most for most, _ in _PACE))
        while (report := self._await(due)) is not None:
            finished = outline.finished(report)
            key = outline.change_key(finished)
            begun = time.monotonic()
            if key == written and begun < due:
                continue
            pause = self._write(finished)
            if pause == 0.0:
                written, due = key, begun + self._settings.report_interval
                begins.append(begun)
                pause = next_slot(begins) - time.monotonic()
            else:
                # After the pause whatever is newest then is written, changed or not.
                written, due = None, 0.0
            self._stopping.wait(max(0.0, pause))

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
                body = self._client.get(self._path)
                last = msgspec.json.decode(body, type=NodeDeviceHealth).status
            except NotFound:
                last = None
            except msgspec.DecodeError as error:
                _log.warning("this node's last report cannot be read and is begun anew: %s", error)
                last = None
            except ApiError as error:
                self._stopping.wait(self._fail(error))
                continue
            self._failures = 0
            if last is not None:
                with self._news:
                    # Said before it was known what is counted already.
                    self._newest = None
            self._on_adopted(last)
            return True
        return False

    def _write(self, report: NodeHealth) -> float:
        """Write one report; returns the seconds to wait, 0 when it was accepted."""
        try:
            self._patch(report)
        except ApiError as error:
            return self._fail(error)
        if self._complaint or self._failures:
            _log.info("reports are accepted again")
        self._complaint, self._failures = "", 0
        self._accepted.set()
        self._metrics.report_writes.inc()
        self._metrics.report_up.set(1)
        self._metrics.report_success.set(clock.now().timestamp())
        return 0.0

    def _patch(self, report: NodeHealth) -> None:
        try:
            self._client.merge_patch(f"{self._path}/status", {"status": report})
        except NotFound:
            self._create()
            self._client.merge_patch(f"{self._path}/status", {"status": report})

    def _create(self) -> None:
        try:
            self._client.create(
                COLLECTION,
                {
                    "apiVersion": f"{API_GROUP}/{API_VERSION}",
                    "kind": "NodeDeviceHealth",
                    "metadata": {"name": self._settings.node_name},
                },
            )
        except Conflict:
            return

    def _fail(self, error: ApiError) -> float:
        self._accepted.clear()
        self._metrics.report_up.set(0)
        self._metrics.report_failures.labels(str(error.status or "unreachable")).inc()
        missing = isinstance(error, NotFound)
        complaint = _NOT_INSTALLED if missing else f"a report was not accepted: {error.message}"
        if complaint != self._complaint:
            _log.warning("%s", complaint)
        self._complaint = complaint
        self._failures += 1
        if missing:
            return min(_MISSING_RETRY, self._settings.report_interval)
        return _BACK_OFF[min(self._failures, len(_BACK_OFF)) - 1]

    def _stay_alive(self) -> None:
        """Renew the Lease while reports are accepted.

        A living agent whose reports go nowhere must not lend its life to an old one.
        """
        name = f"draguard-agent-{self._settings.node_name}"
        duration = max(1, int(_LEASE_DURATIONS * self._settings.lease_interval))
        told = ""
        while not self._stopping.is_set():
            if not self._accepted.wait(_LEASE_LOOK):
                continue
            try:
                lease.renew(
                    self._client,
                    self._settings.lease_namespace,
                    name,
                    self._settings.node_name,
                    duration,
                    clock.now(),
                )
                told = ""
            except ApiError as error:
                self._metrics.lease_failures.inc()
                if error.message != told and not self._stopping.is_set():
                    _log.warning("the agent's Lease is not renewed: %s", error.message)
                told = error.message
            self._stopping.wait(self._settings.lease_interval)


def next_slot(begins: Sequence[float]) -> float:
    """Return the moment from which one more write keeps the pace."""
    return max((begins[-most] + span for most, span in _PACE if len(begins) >= most), default=0.0)
