"""The agent: what the sensor tells and the driver publishes becomes a page and a report.

Not root, with a token and a port. All state is the report, the last observation
and the page; every piece of news replaces them as a whole, under one lock.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from exporter import protocol
from exporter.agent.ages import Ages
from exporter.agent.join.attribution import Attribution
from exporter.agent.link import UNREACHABLE, VERSION_SKEW, SensorLink
from exporter.agent.report import ledger
from exporter.agent.report.clock_set import by_clock_of, dated_as, earlier
from exporter.agent.report.inventory import other_drivers
from exporter.agent.report.reporter import Reporter
from exporter.metrics import relay, xid_changes
from exporter.metrics.clock_edges import ClockEdges
from exporter.metrics.counters_file import CountersFile
from exporter.metrics.families import requested_fields
from exporter.metrics.render import Page, page
from exporter.metrics.selection import selected
from exporter.metrics.settling import Settling
from exporter.metrics.shown import shown
from exporter.metrics.snapshot import Snapshot
from exporter.metrics.windows import Windows
from exporter.model.device_option import parse_devices
from exporter.model.node_health import NodeHealth, SourceHealth
from exporter.model.readings import NvmlReading, Observation
from exporter.self_metrics import SelfMetrics
from exporter.sensor import gpu_processes
from exporter.settings import Settings
from kubeapi import clock
from kubeapi.client import Client

_log = logging.getLogger(__name__)

_RENDER_DELAY = 0.1
"""Seconds from news to a page that shows it; news that comes in pairs is rendered once."""
_RENDER_GAP = 0.25
"""Seconds between two renderings, however much happens."""
_PATIENCE = 3.0
"""Seconds at the start in which a sensor that is not up yet is no news."""


class Agent:
    """Takes news (as the `Listener` of a `SensorLink`) and keeps page and report current."""

    def __init__(
        self,
        settings: Settings,
        client: Client | None,
        version: str,
        counters: CountersFile,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._settings = settings
        self._version = version
        self._counters = counters
        self._selection = parse_devices(settings.devices)
        self._windows = Windows(settings.xid_window, settings.clock_events_window)
        self._edges = ClockEdges()
        self._settling = Settling()
        self._render_seconds: float | None = None
        self._now = now
        self._knows_boot = False
        """The sensor has said of which boot the report is."""
        self.metrics = SelfMetrics(version, reporting=client is not None and settings.report)
        self._lock = threading.RLock()
        self._report = ledger.begin("", version, self._now())
        self._observation: Observation | None = None
        """What the sensor sent last, but for what is too old."""
        self._begun = time.monotonic()
        self._ages = Ages(
            interval=settings.interval,
            deadline=settings.sample_deadline,
            start=settings.start_deadline,
            now=self._begun,
        )
        self._stale: frozenset[str] = frozenset()
        """Sources of which the sensor sends nothing new."""
        self._run = ""
        self._listening = False
        self._reconnecting = False
        self._blind = ""
        """Why the sensor is stale, as it was last reported."""
        self._skew = ""
        """What the sensor sent that only a newer agent understands."""
        self._silent: frozenset[str] = frozenset()
        """GPUs that NVML could not read when it spoke last."""
        self._without_nvml = False
        """Whether it was logged that DCGM alone makes the page."""
        self._page: Page | None = None
        self._rendered_at = 0.0
        """When the page was rendered (monotonic)."""
        self._dirty = threading.Event()
        self._adopted = threading.Event()
        self._stopping = threading.Event()
        self._link = SensorLink(settings.sensor_socket, self, self.metrics.frames_refused.inc)
        self._attribution = Attribution(settings, client, self._reattributed)
        self._shares = (gpu_processes.source(settings),) if settings.kubernetes else ()
        self._reporter = (
            Reporter(settings, client, self.metrics, self._adopt)
            if client and settings.report
            else None
        )
        self._renderer = threading.Thread(target=self._render, name="renderer", daemon=True)

    def start(self) -> None:
        self._attribution.start()
        if self._reporter is not None:
            self._reporter.start()
            # Saves taking the same signals twice, where the API server answers at all.
            self._adopted.wait(_PATIENCE)
        self._link.start()
        self._renderer.start()

    def stop(self) -> None:
        self._stopping.set()
        self._dirty.set()
        self._link.stop()
        if self._reporter is not None:
            self._reporter.stop()
        self._attribution.stop()
        self._renderer.join(_PATIENCE)

    def reload(self) -> None:
        """Read the counters file again, whether it seems changed or not."""
        self._counters.ask()
        self._dirty.set()

    def page(self) -> Page | None:
        """Return the page to serve; None before the first, when none is rendered any more."""
        age = time.monotonic() - self._rendered_at
        return self._page if age <= self._ages.allowed else None

    def unready(self) -> str:
        """Say why there is no fresh local snapshot, "" when there is one."""
        with self._lock:
            if self._observation is None:
                messages = (source.message for source in self._report.sources if source.message)
                return "no observation from the sensor: " + next(messages, "not connected yet")
            age = self._ages.silence(time.monotonic())
            if age > self._ages.allowed:
                return f"no message from the sensor for {age:.0f} s"
            if self._stale:
                return "; ".join(map(self._ages.sentence, sorted(self._stale)))
        return "" if self.page() else "no page is rendered; if this persists, see the log"

    def hello(self) -> protocol.Hello:
        fields = requested_fields(self._counters.current)
        with self._lock:
            return protocol.Hello(self._report.cursor, self._report.boot_id, fields)

    def welcome(self, message: protocol.Welcome) -> None:
        with self._lock:
            self._run = message.run
            self._listening, self._reconnecting, self._blind = True, False, ""
            self._skew = ""
            self._ages.message(time.monotonic())
            self._report = ledger.adopt(self._report, message.boot_id, self._version, self._now())
            self._knows_boot = True
            self._follow_clock()
        _log.info("connected to sensor %s in boot %s", message.run[:8], message.boot_id)

    def signals(self, message: protocol.Signals) -> None:
        with self._lock:
            if not self._listening:
                return
            self._follow_clock()
            before, now = self._report, self._now()
            self._report = ledger.take(
                before,
                [dated_as(before, signal) for signal in message.signals],
                run=self._run,
                kernel_sequence=message.kernel_sequence,
                now=now,
            )
            self._took(before)
            self._tell()

    def observed(self, message: protocol.Observed) -> None:
        with self._lock:
            if not self._listening:
                return
            self._follow_clock()
            seen = dated_as(self._report, message.observation)
            if seen.nvml is not None:
                nvml = dated_as(self._report, seen.nvml)
                seen = msgspec.structs.replace(seen, nvml=nvml)
            self._ages.note(self._run, seen, time.monotonic())
            self._observation = seen = self._fresh(seen)
            self._silent = relay.silent(seen, self._silent)
            if seen.nvml is not None:
                self._windows.sampled(seen.nvml)
                self._edges.sampled(seen.nvml)
            self._observe()
            if self._ages.confirms(time.monotonic()):
                self._looked_at()
        self._attribution.seen(seen)

    def unknown(self, message: str) -> None:
        if message != self._skew:
            _log.warning("%s", message)
        self._skew = message
        self._dirty.set()

    def unreachable(self, message: str, reason: str = UNREACHABLE) -> None:
        with self._lock:
            self._follow_clock()
            at_start = time.monotonic() - self._begun < _PATIENCE and not self._run
            expected, self._reconnecting = self._reconnecting, False
            self._listening = False
            self._observation = None
            known = expected or (at_start and reason == UNREACHABLE) or self._blind == reason
            if known:
                return
            self._blind = reason
            self._report = ledger.blind(self._report, reason, message, self._now())
            self._tell()
            self._looked_at()
        _log.warning("%s", message)

    def _adopt(self, last: NodeHealth | None) -> None:
        with self._lock:
            boot_id = self._report.boot_id
            if last is not None and (boot_id in ("", last.boot_id)):
                self._knows_boot = False
                self._report = ledger.adopt(last, last.boot_id, self._version, self._now())
                self._attribution.adopt(self._report)
                # Messages under way were sent for another cursor. That the sensor is away is not in
                # this report yet.
                self._listening, self._reconnecting, self._blind = False, True, ""
                self._observation = None
                if self._reporter is not None:
                    self._reporter.forget()
                self._link.reconnect()
            elif last is not None:
                self._report = ledger.with_versions(self._report, last, self._now())
        self._adopted.set()
        if last is not None:
            _log.info("resumed from this node's stored report boot=%s", last.boot_id)

    def _follow_clock(self) -> None:
        """Let the dates of what is known move along when the wall clock was set."""
        booted_at = clock.boot_time(self._now) if self._knows_boot else None
        if booted_at is None:
            return
        before = self._report.clock_set_back_ms
        self._report = by_clock_of(self._report, booted_at)
        back = self._report.clock_set_back_ms - before
        if back and self._observation is not None:
            self._observation = earlier(self._observation, timedelta(milliseconds=back))

    def _reattributed(self) -> None:
        with self._lock:
            self._follow_clock()
            if self._observation is not None:
                self._observe()
        self._dirty.set()

    def _observe(self) -> None:
        if self._observation is None:
            return
        before = self._report
        report = ledger.observe(
            before,
            self._observation,
            published=self._attribution.published(),
            lost_after=timedelta(seconds=self._settings.lost_after),
            interval=timedelta(seconds=self._settings.interval),
        )
        self._report = self._attribution.with_names(report)
        # A GPU that the kernel log alone knew may have got its name, and its XIDs with it.
        self._took(before)
        self._tell()

    def _took(self, before: NodeHealth) -> None:
        changes = xid_changes.between(before, self._report)
        self._windows.took(changes)
        self._settling.took(changes, time.monotonic())

    def _looked_at(self) -> None:
        """Let the Lease be renewed: what the report says was found just now."""
        if self._reporter is not None:
            self._reporter.observed()

    def _tell(self) -> None:
        if self._reporter is not None:
            self._reporter.offer(self._report)
        self._dirty.set()

    def _render(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                due = self._ages.due(time.monotonic())
            self._dirty.wait(min(self._settings.interval, self._settling.pause(), due))
            # The report goes first: rendering would take the interpreter from its writer.
            self._stopping.wait(_RENDER_DELAY)
            self._dirty.clear()
            self._check_freshness()
            try:
                if self._counters.look():
                    self._link.want(requested_fields(self._counters.current))
                begun = time.perf_counter()
                # Not in a variable: it would keep the page before this one in memory.
                self._page = page(self.snapshot(), *self.metrics.forms())
                self._rendered_at = time.monotonic()
                self._render_seconds = time.perf_counter() - begun
            except Exception:  # noqa: BLE001 - logged; the page before would look fresh
                self._page = None
                self.metrics.render_failures.inc()
                _log.exception("the page cannot be rendered, so none is served")
            self._stopping.wait(_RENDER_GAP)

    def _check_freshness(self) -> None:
        with self._lock:
            self._ages.look(now := time.monotonic())
            seconds = self._ages.silence(now)
            if self._blind:
                self._looked_at()
            elif seconds > self._ages.allowed:
                self.unreachable(f"no message from the sensor for {seconds:.0f} s; see its log")
                # Only a Welcome makes us listen again, and it comes only to a new connection.
                self._link.reconnect()
            elif self._observation is not None and self._ages.stale(now) != self._stale:
                self._observation = self._fresh(self._observation)
                self._observe()

    def _fresh(self, seen: Observation) -> Observation:
        """Return what is not too old, and log what became so."""
        stale = self._ages.stale(time.monotonic())
        for source in sorted(stale - self._stale):
            _log.warning("%s", self._ages.sentence(source))
        self._stale = stale
        return self._ages.without(seen, stale)

    def snapshot(self) -> Snapshot:
        """Return everything the page shows, as of now."""
        with self._lock:
            report, seen = self._report, self._observation
            windows = self._windows.counts(self._now())
            edges = self._edges.counts()
            corrections = self._settling.corrections(time.monotonic())
        holders = self._attribution.holders(seen, report)
        relayed = self._relayed(seen, report) if seen else None
        others = other_drivers(seen, self._attribution.published()) if seen else {}
        if seen is not None and seen.nvml is not None:
            seen = msgspec.structs.replace(seen, nvml=selected(seen.nvml, self._selection))
        sources = (*self._attribution.sources(), *self._shares)
        if self._reporter is not None:
            sources += (self._reporter.source(),)
        if self._skew:
            skew = SourceHealth(name="sensor", state="Up", reason=VERSION_SKEW, message=self._skew)
            sources += (skew,)
        return Snapshot(
            node=self._settings.node_name,
            at=report.observed_at or self._now(),
            report=report,
            seen=seen,
            relayed=selected(relayed, self._selection) if relayed else None,
            shown=shown(self._settings, self._counters.current),
            reloads=self._counters.reloads,
            windows=windows,
            clock_edges=edges,
            xid_corrections=corrections,
            holders=holders,
            other_drivers=others,
            join_misses=dict(Counter(reason for reason, _ in holders.misses)),
            agent_sources=sources,
            render_seconds=self._render_seconds,
        )

    def _relayed(self, seen: Observation, report: NodeHealth) -> NvmlReading | None:
        """Return the GPUs that DCGM alone names, and log when that begins and ends."""
        found = relay.relayed(seen, report.gpus, self._silent)
        if (found is not None) != self._without_nvml:
            self._without_nvml = found is not None
            sentence = (
                relay.sentence(found, seen) if found else "DCGM's own GPU ids are not shown now"
            )
            _log.warning("%s", sentence)
        return found
