"""What an API server answers to a report is a state that says what to do."""

import contextlib
import threading
from collections.abc import Generator
from datetime import UTC, datetime

import pytest

from exporter.agent.report import acceptance, ledger
from exporter.agent.report.reporter import Reporter
from exporter.model.node_health import NodeHealth, SourceHealth
from exporter.self_metrics import SelfMetrics
from exporter.settings import Settings
from kubeapi.client import Client
from tests.exporter.agent.report.test_report_size import node, storm
from tests.exporter.running import wait_for
from tests.kubeapi import hostile
from tests.kubeapi.hostile import Behaviour, Hostile

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
_STORED = b'{"metadata": {"name": "node-a", "resourceVersion": "1"}}'
TAKEN = hostile.body(_STORED)
"""Answers a look at the object, too."""
NONE_YET = hostile.refusal(404, "NotFound")


class Writer:
    """A reporter and what it says of itself, against a server that follows a script."""

    def __init__(self, server: Hostile) -> None:
        self._client = Client(server.endpoint, timeout=60.0)
        self._metrics = SelfMetrics("1")
        settings = Settings(node_name="node-a", lease_interval=3600.0)
        self.adopted = threading.Event()
        self.reporter = Reporter(settings, self._client, self._metrics, self._on_adopted)
        self._server = server
        self.reporter.start()

    def _on_adopted(self, last: NodeHealth | None) -> None:
        del last
        self.adopted.set()

    def offer(self, report: NodeHealth) -> None:
        assert self.adopted.wait(60)
        self.reporter.offer(report)

    def state(self, reason: str, *, up: bool) -> SourceHealth:
        """Wait for a state."""

        def found() -> SourceHealth | None:
            state = self.reporter.source()
            return state if (state.reason, state.up) == (reason, up) else None

        return wait_for(found, what=reason)

    def shows(self, line: str) -> bool:
        return line in self._metrics.text().decode()

    def page(self) -> str:
        return self._metrics.text().decode()

    def puts(self) -> list[int]:
        """Return the sizes of the reports that were sent, in bytes."""
        heads = [
            request for request in self._server.requests if "PUT /apis/draguard.dev" in request
        ]
        return [int(head.lower().split("content-length: ")[1].split("\r\n")[0]) for head in heads]


@contextlib.contextmanager
def writing(*answers: Behaviour) -> Generator[Writer]:
    with Hostile(answers) as server:
        writer = Writer(server)
        try:
            yield writer
        finally:
            writer.reporter.stop()


def report() -> NodeHealth:
    return ledger.begin("boot-1", "1", NOW)


@pytest.mark.parametrize(
    ("status", "logged_text", "reason", "advice"),
    [
        (None, "no answer in time", "Unreachable", "check the API server's address"),
        (400, "bad", "Invalid", "apply deploy/manifests/crds.yaml of the agent's release"),
        (401, "who", "Unauthorized", "token"),
        (403, "may not", "Forbidden", "update on nodedevicehealths/status"),
        (404, "none", "NotServed", "apply deploy/manifests/crds.yaml"),
        (409, "stale", "Conflict", "second agent"),
        (413, "large", "TooLarge", "fewer XID records"),
        (422, "enum", "Invalid", "apply deploy/manifests/crds.yaml of the agent's release"),
        (429, "slow", "Throttled", "throttling"),
        (418, "teapot", "Refused", "log"),
        (500, "etcd", "ServerError", "tried again"),
        (500, "etcdserver: request is too large", "TooLarge", "fewer XID records"),
        (500, "trying to send message larger than max", "TooLarge", "fewer XID records"),
        (503, "down", "ServerError", "tried again"),
    ],
)
def test_each_refusal_is_a_state_with_what_to_do(
    status: int | None, logged_text: str, reason: str, advice: str
) -> None:
    before = acceptance.accepted((), NOW)
    state = acceptance.refused(status, logged_text, before)
    assert (state.up, state.reason, state.last_success) == (False, reason, NOW)
    assert logged_text in state.message
    assert advice in state.message


def test_fields_that_were_not_stored_are_a_state_and_no_failure() -> None:
    logged_text = [f'unknown field "status.gpus[{number}].nvlink"' for number in range(9)]
    state = acceptance.accepted(logged_text, NOW)
    assert (state.up, state.reason) == (True, "FieldsDropped")
    assert 'status.gpus[0].nvlink"' in state.message
    assert "and 6 more" in state.message
    assert "deploy/manifests/crds.yaml" in state.message
    assert acceptance.accepted((), NOW) == SourceHealth(name="report", state="Up", last_success=NOW)


def test_another_warning_does_not_blame_the_crd() -> None:
    state = acceptance.accepted(["v1alpha1 is deprecated"], NOW)
    assert (state.up, state.reason) == (True, "Warned")
    assert "CRD" not in state.message
    assert acceptance.fields_dropped(["v1alpha1 is deprecated"]) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (hostile.refusal(403, "Forbidden"), "Forbidden"),
        (hostile.refusal(500, "InternalError"), "ServerError"),
        (hostile.drop, "Unreachable"),
    ],
)
def test_a_refused_report_is_written_again_and_then_all_is_well(
    answer: Behaviour, reason: str
) -> None:
    seen = threading.Event()
    with writing(TAKEN, answer, hostile.once(seen, TAKEN), TAKEN) as writer:
        writer.offer(report())
        writer.state(reason, up=False)
        assert writer.shows("draguard_report_up 0.0")
        seen.set()
        writer.state("", up=True)
        assert wait_for(lambda: writer.shows("draguard_report_up 1.0"))
        assert writer.shows("draguard_report_writes_total 1.0")


def test_a_second_writer_is_a_state_when_it_shows_twice() -> None:
    conflict, seen = hostile.refusal(409, "Conflict"), threading.Event()
    with writing(TAKEN, conflict, TAKEN, conflict, hostile.once(seen, TAKEN), TAKEN) as writer:
        writer.offer(report())
        writer.state("Conflict", up=False)
        seen.set()
        writer.state("", up=True)


def test_somebody_elses_label_costs_a_look_and_no_report() -> None:
    with writing(TAKEN, hostile.refusal(409, "Conflict"), TAKEN) as writer:
        writer.offer(report())
        writer.state("", up=True)
        assert 'report_failures_total{status="409"}' not in writer.page()


def test_an_invalid_report_is_written_smaller_at_once_and_counted() -> None:
    invalid = hostile.refusal(422, "Invalid", "status.gpus[0].serial: Too long")
    with writing(TAKEN, invalid, TAKEN) as writer:
        writer.offer(report())
        state = writer.state("Reduced", up=True)
        assert "status.gpus[0].serial: Too long" in state.message
        assert writer.shows('draguard_report_reductions_total{size="Essential"} 1.0')
        assert writer.shows("draguard_report_up 1.0")


def test_a_report_of_which_every_size_is_invalid_is_a_failure_and_tried_again() -> None:
    invalid, seen = hostile.refusal(422, "Invalid"), threading.Event()
    with writing(TAKEN, *[invalid] * 3, hostile.once(seen, TAKEN)) as writer:
        writer.offer(report())
        writer.state("Invalid", up=False)
        assert writer.shows('draguard_report_reductions_total{size="Bare"} 1.0')
        seen.set()
        writer.state("Reduced", up=True)


def test_a_cluster_without_the_crd_is_a_state_that_says_how_to_install_it() -> None:
    with writing(NONE_YET) as writer:
        writer.offer(report())
        assert "apply deploy/manifests/crds.yaml" in writer.state("NotServed", up=False).message


def test_a_report_that_is_too_large_is_written_again_with_less() -> None:
    full = ledger.take(node(sliced=True), storm(), run="r", kernel_sequence=None)
    seen, large = threading.Event(), hostile.refusal(413, "RequestEntityTooLarge")
    with writing(TAKEN, large, hostile.once(seen, TAKEN), TAKEN) as writer:
        writer.offer(full)
        writer.state("TooLarge", up=False)
        seen.set()
        writer.state("", up=True)
        first, second = writer.puts()
        assert 200_000 < first < 263_000
        assert second < 132_000


def test_a_warning_is_counted_reported_and_forgotten_when_it_is_over() -> None:
    warned = hostile.body(
        _STORED, headers='warning: 299 - "unknown field \\"status.switches\\"", 299 - "x"\r\n'
    )
    with writing(TAKEN, warned, TAKEN) as writer:
        writer.offer(report())
        state = writer.state("FieldsDropped", up=True)
        assert 'unknown field "status.switches"' in state.message
        assert wait_for(lambda: writer.shows("draguard_report_fields_dropped 1.0"))
        assert writer.shows("draguard_report_up 1.0")
        writer.offer(ledger.begin("boot-2", "1", NOW))
        writer.state("", up=True)
        assert wait_for(lambda: writer.shows("draguard_report_fields_dropped 0.0"))


def test_what_was_written_last_time_but_is_no_report_is_begun_anew() -> None:
    garbage = hostile.body(b'{"metadata": {"name": "node-a"}, "status": {"gpus": 7}}')
    with writing(garbage, TAKEN) as writer:
        writer.offer(report())
        writer.state("", up=True)
