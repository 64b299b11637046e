"""`-w`: look again until Ctrl-C, and show what has changed.

It reads the objects again instead of watching them: every right to list is enough for it, and a
result that needs several collections is of one moment.
"""

import argparse
import gc
import sys
from collections.abc import Callable
from time import monotonic, sleep

from draguard.connection.errors import sentence
from draguard.connection.session import print_error
from kubeapi.client import ApiError, Client

PAUSE = 2.0
"""Seconds between two looks, or as long as a look takes where that is longer."""
_NO_RIGHTS = (401, 403)


def add_watch_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-w", "--watch", action="store_true", help="then show changes, until Ctrl-C"
    )


def watch(command: str, client: Client, look: Callable[[], int], *, again: bool) -> int:
    """Look once, and again for as long as the user wants. Returns the status of the last look.

    A failed request is repeated. Raises ApiError at the first look, and without rights.
    """
    began = monotonic()
    status, before = look(), ""
    while again:
        sys.stdout.flush()
        gc.collect()  # Python's collector rests during a command
        sleep(max(PAUSE, monotonic() - began))
        began = monotonic()
        try:
            status, before = look(), ""
        except ApiError as error:
            if error.status in _NO_RIGHTS:
                raise
            why = sentence(error, client.endpoint.server)
            if why != before:
                print_error(command, why)
            before = why
    return status
