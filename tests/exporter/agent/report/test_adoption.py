"""An agent that finds its last report late writes nothing over it that it said before."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from exporter import protocol
from exporter.agent.process import Agent
from exporter.agent.report import ledger
from exporter.metrics.counters_file import CountersFile
from exporter.model.node_health import NodeHealth
from exporter.settings import Settings
from kubeapi.client import Client
from kubeapi.endpoint import Endpoint
from tests.exporter.running import wait_for
from tests.exporter.worlds import START, Sensed, counts, gpu, seen

LAST = ledger.take(
    ledger.observe(ledger.begin("boot-1", "1", START), seen(gpu())),
    [Sensed().kmsg(1, 79)],
    run="run-1",
    kernel_sequence=None,
)


META = {"name": "node-a", "resourceVersion": "1"}


class Written(msgspec.Struct):
    """The body of a PUT."""

    status: NodeHealth


class LateServer(ThreadingHTTPServer):
    """An API server that gives the last report when it is let, and keeps what is written."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.may = threading.Event()
        self.answered = threading.Event()
        self.written: list[NodeHealth] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, LateServer)
        self.server.may.wait(60)
        self._answer(msgspec.json.encode({"metadata": META, "status": LAST}))
        self.server.answered.set()

    def do_PUT(self) -> None:
        assert isinstance(self.server, LateServer)
        body = self.rfile.read(int(self.headers["content-length"]))
        if "nodedevicehealths" in self.path:
            self.server.written.append(msgspec.json.decode(body, type=Written).status)
        self._answer(msgspec.json.encode({"metadata": META}))

    # The Lease.
    do_PATCH = do_PUT  # noqa: N815 - the base's name

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        del format, args


@pytest.fixture
def server() -> Iterator[LateServer]:
    with LateServer() as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield serving
        serving.may.set()
        serving.shutdown()
        thread.join()


def the_lock_of(agent: Agent) -> AbstractContextManager[object]:
    """Return what a thread of the agent's holds while it takes what the sensor says."""
    return agent._lock  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - to hold a moment


def test_what_was_seen_while_the_last_report_came_in_is_not_written_over_it(
    server: LateServer, tmp_path: Path
) -> None:
    client = Client(Endpoint(server=f"http://127.0.0.1:{server.server_port}"), timeout=60.0)
    settings = Settings(node_name="node-a", sensor_socket=tmp_path / "none.sock", kubernetes=False)
    agent = Agent(settings, client, "1", CountersFile(None))
    agent.start()
    try:
        with the_lock_of(agent):
            agent.welcome(protocol.Welcome("run-2", "boot-1"))
            server.may.set()
            assert server.answered.wait(60)
            threading.Event().wait(0.5)  # now the reporter waits to hand over what it read
            agent.observed(protocol.Observed(seen(gpu())))
        wait_for(lambda: counts(agent.snapshot().report), what="the last report")
        with the_lock_of(agent):
            agent.welcome(protocol.Welcome("run-2", "boot-1"))
            agent.observed(protocol.Observed(seen(gpu())))
        wait_for(lambda: server.written, what="a report")
    finally:
        agent.stop()
        client.close()
    # One look: a report that was under way at the end may still come in.
    for report in tuple(server.written):
        assert counts(report) == {"GPU-1": {(79, None): 1}}


def test_a_report_that_comes_late_does_not_make_gpus_present_while_there_is_no_sensor(
    server: LateServer, tmp_path: Path
) -> None:
    client = Client(Endpoint(server=f"http://127.0.0.1:{server.server_port}"), timeout=60.0)
    settings = Settings(node_name="node-a", sensor_socket=tmp_path / "none.sock", kubernetes=False)
    agent = Agent(settings, client, "1", CountersFile(None))
    agent.start()
    try:
        wait_for(
            lambda: any(source.reason for source in agent.snapshot().report.sources),
            what="the sensor to be called unreachable",
        )
        server.may.set()
        wait_for(lambda: counts(agent.snapshot().report), what="the last report")
        wait_for(
            lambda: {gpu.presence for gpu in agent.snapshot().report.gpus} == {"Unknown"},
            what="GPUs of which nothing is known",
        )
        wait_for(lambda: server.written, what="a report of that")
    finally:
        agent.stop()
        client.close()
    assert {gpu.presence for gpu in server.written[-1].gpus} == {"Unknown"}
