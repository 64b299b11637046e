"""Many writes at once, through the project's own client: the fleet as it reaches the API server."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from kubeapi.client import ApiError, Client

Write = Callable[[Client], object]
TRIES = 3


class Loaded(msgspec.Struct, frozen=True):
    """How a batch of writes went."""

    writes: int
    seconds: float
    refused: int
    """Writes that failed at every try."""
    first_error: str = ""


def load(client: Client, writes: Iterable[Write], *, clients: int = 8) -> Loaded:
    """Make all writes, each once, by several clients side by side; errors are tried again."""
    waiting: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
    all_writes = list(writes)
    for write in all_writes:
        waiting.put(write)
    errors: list[str] = []

    def work(worker: Client) -> None:
        while (write := waiting.get()) is not None:
            error = _try(worker, write)
            if error:
                errors.append(error)
        worker.close()

    workers = [
        threading.Thread(target=work, args=(client.sibling(30.0),), daemon=True)
        for _ in range(clients)
    ]
    for _ in workers:
        waiting.put(None)
    began = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return Loaded(
        len(all_writes), time.monotonic() - began, len(errors), errors[0] if errors else ""
    )


def _try(client: Client, write: Write) -> str:
    error = ""
    for _ in range(TRIES):
        try:
            write(client)
        except ApiError as refused:
            error = str(refused)
        else:
            return ""
    return error


class Renewals:
    """Renews every Lease once a period, evenly, until it is stopped. Use with `with`."""

    def __init__(
        self, client: Client, writes: Sequence[Callable[[], Write]], period: float
    ) -> None:
        self._client, self._writes = client, writes
        self._pause = period / max(len(writes), 1)
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._renew, args=(part,), daemon=True) for part in range(2)
        ]
        self.done = 0
        self.refused = 0

    def __enter__(self) -> "Renewals":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _renew(self, part: int) -> None:
        client, parts = self._client.sibling(10.0), len(self._threads)
        due, number = time.monotonic(), part
        while not self._over.wait(max(due - time.monotonic(), 0.0)):
            try:
                self._writes[number % len(self._writes)]()(client)
                self.done += 1
            except ApiError:
                self.refused += 1
            number += parts
            due += self._pause * parts
        client.close()
