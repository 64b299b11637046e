"""What the programs of the cluster have in common at their start: login, log, signals, errors."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Protocol

from kubeapi.endpoint import Endpoint, EndpointError, in_cluster
from kubeapi.proxy import proxied
from remediator.program_settings import ProgramSettings
from serving.front import FrontError
from serving.message import ConfigError


class Program(Protocol):
    def run(self) -> None:
        """Work until `stop`."""
        ...

    def stop(self) -> None: ...


def endpoint_of(settings: ProgramSettings) -> Endpoint:
    """Return how to reach the API server. Raises EndpointError with what to do."""
    if settings.kubeconfig is not None:
        # Loads the client library, which a pod's service account does not need.
        from remediator.controller.kubeconfig import endpoint

        return proxied(endpoint([settings.kubeconfig]), os.environ)
    if settings.kube_server:
        return Endpoint(
            server=settings.kube_server,
            token_file=settings.kube_token_file,
            ca_file=settings.kube_ca_file,
        )
    return in_cluster()


def run_program(
    make: Callable[[], Program],
    log: logging.Logger,
    settings: ProgramSettings,
) -> int:
    """Make a program and run it until it is stopped; returns the exit status."""
    logging.basicConfig(
        level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
    log.info("settings: %s", settings)
    try:
        program = make()
    except EndpointError as error:
        log.error("%s", error)
        return 2
    except ConfigError as error:
        log.error("%s (--web-config)", error)
        return 2
    # Python sets signal handlers only in the main thread.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: program.stop())
    try:
        program.run()
    except FrontError as error:
        log.error("%s (--listen, --health-listen)", error)
        return 1
    return 0
