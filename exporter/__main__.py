"""`python -m exporter sensor|agent|run`, and what `draguard exporter` calls."""

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib import metadata

from exporter import logs
from exporter.flags.parser import parse
from exporter.pdeathsig import die_with
from exporter.settings import Settings, SettingsError
from exporter.shutdown import Ending, end_with_any_thread

_log = logging.getLogger("exporter")

_END_SECONDS = {"sensor": 3.0, "agent": 4.5, "run": 4.5}
"""A role that has not ended so long after it was asked to is ended as it is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one role until SIGTERM or SIGINT; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if "--check" in arguments:
        from exporter.node.own_flags import completed

        arguments = completed(arguments)
    try:
        settings, unused = parse(arguments)
    except SettingsError as error:
        print(f"exporter: {error}", file=sys.stderr)  # noqa: T201 - there is no log yet
        return 2
    if settings.alive:
        from exporter.sensor import heartbeat

        why = heartbeat.stalled(settings.sensor_socket, time.monotonic())
        print(why or "ok")  # noqa: T201 - the answer to a probe
        return 1 if why else 0
    logs.begin(settings)
    _log.info("settings: %s", settings.one_line())
    for sentence in unused:
        _log.warning("%s", sentence)
    end_with_any_thread()
    ending = Ending(_END_SECONDS[settings.role])
    ending.listen(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    if settings.check:
        return _check(settings)
    return _ROLES[settings.role](settings, ending, arguments)


def _check(settings: Settings) -> int:
    from exporter.metrics.counters import CountersError
    from exporter.node.check import check

    logging.disable()  # what goes wrong is in the answer
    try:
        able, text = check(settings)
    except CountersError as error:
        print(f"exporter: {error}", file=sys.stderr)  # noqa: T201 - the answer to a person
        return 2
    print(text, end="")  # noqa: T201 - the answer to a person
    return 0 if able else 1


def _sensor(settings: Settings, ending: Ending, _: list[str]) -> int:
    from exporter.sensor import heartbeat
    from exporter.sensor.process import Sensor
    from exporter.sensor.server import SensorServer

    if settings.parent:
        die_with(settings.parent, by=signal.SIGTERM)
    try:
        sensor = Sensor(settings)
        server = SensorServer(sensor, settings.sensor_socket)
    except OSError as error:
        _log.error(
            "the sensor cannot serve at %s: %s; choose another place with --sensor-socket",
            settings.sensor_socket,
            error,
        )
        return 1
    locks = (sensor.pass_lock, server.pass_lock)
    alive = heartbeat.Heartbeat(settings.sensor_socket, locks)
    sensor.start()
    server.start()
    alive.start()
    ending.await_signal()
    alive.stop()
    server.stop()
    sensor.stop()
    return 0


def _agent(settings: Settings, ending: Ending, _: list[str]) -> int:
    from exporter.agent.http import fronts_of
    from exporter.agent.process import Agent
    from exporter.kube import client_of
    from exporter.metrics.counters import CountersError
    from exporter.metrics.counters_file import CountersFile
    from serving.front import FrontError
    from serving.message import ConfigError

    try:
        name = str(settings.config_file)
        counters = CountersFile(settings.collectors, settings.counter_rows, name)
    except CountersError as error:
        _log.error("%s (%s)", error, "--collectors" if settings.collectors else "--config-file")
        return 2
    client = client_of(settings)
    agent = Agent(settings, client, metadata.version("draguard"), counters)
    ending.on_hangup(agent.reload)
    try:
        fronts = fronts_of(settings, agent)
        fronts.start()
    except ConfigError as error:
        _log.error("%s (--web-config)", error)
        return 2
    except FrontError as error:
        _log.error("%s (--listen, --health-listen)", error)
        return 1
    agent.start()
    _log.info("serving /metrics on port %d", fronts.port)
    ending.await_signal()
    agent.stop()
    fronts.stop()
    if client is not None:
        client.close()
    return 0


def _run(settings: Settings, ending: Ending, arguments: list[str]) -> int:
    """Be the agent, with a sensor of its own."""
    from exporter.sensor.keeper import SensorKeeper

    keeper = SensorKeeper(arguments)
    keeper.start()

    def end_sensor() -> None:
        ending.requested.wait()
        keeper.stop()

    # Both end at once: each may need all the time that there is.
    ender = threading.Thread(target=end_sensor, daemon=True)
    ender.start()
    code = _agent(settings, ending, arguments)
    ending.requested.set()
    ender.join()
    return code


_ROLES: dict[str, Callable[[Settings, Ending, list[str]], int]] = {
    "sensor": _sensor,
    "agent": _agent,
    "run": _run,
}

if __name__ == "__main__":
    sys.exit(main())
