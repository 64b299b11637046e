"""What the explainer watches, on an API server in memory: what it trusts, and when."""

from collections.abc import Generator

import pytest

from allocation.explainer.observe import Observer
from kubeapi import clock
from kubeapi.client import Client
from tests.lab.cluster import await_true
from tests.remediator.controller.api import CLAIMS, CLASSES, GROUP, RULES, SLICES, Api, serving

DRA = (SLICES, CLASSES, CLAIMS)


class Watched:
    """An observer of this API server, as it is at its first probe."""

    def __init__(self, api: Api, client: Client) -> None:
        self.api, self.observer = api, Observer(client, clock.now)

    def begin(self, *unserved: str) -> None:
        self.api.unserved |= {*unserved}
        self.observer.start()
        self.observer.probe()

    def distrust(self) -> set[str]:
        return {name for name, why in self.observer.distrust_by_kind().items() if why}

    def await_trust(self) -> None:
        await_true("all is trusted", lambda: not self.distrust())


@pytest.fixture
def watched() -> Generator[Watched]:
    with serving() as (api, endpoint):
        client = Client(endpoint)
        found = Watched(api, client)
        try:
            yield found
        finally:
            found.observer.stop()
            client.close()


def test_nothing_is_trusted_before_it_was_listed(watched: Watched) -> None:
    every = {"resourceslices", "deviceclasses", "resourceclaims", "devicetaintrules"}

    assert watched.distrust() == {*every, "pods", "nodes"}
    watched.begin()
    watched.await_trust()


def test_a_cluster_without_dra_has_no_claims_and_is_trusted(watched: Watched) -> None:
    watched.begin(*DRA, RULES)
    watched.await_trust()

    snapshot = watched.observer.snapshot()
    assert (dict(snapshot.claims), snapshot.inventory.slices) == ({}, ())


@pytest.mark.parametrize("path", DRA)
def test_one_kind_alone_that_is_not_served_is_distrusted(watched: Watched, path: str) -> None:
    watched.begin(path)

    await_true("only that is", lambda: watched.distrust() == {path.removeprefix(f"{GROUP}/")})


def test_what_was_served_once_and_is_served_no_more_is_distrusted(watched: Watched) -> None:
    watched.begin()
    watched.await_trust()
    watched.api.unserved |= {*DRA}
    watched.observer.probe()

    assert watched.distrust() == {"resourceslices", "deviceclasses", "resourceclaims"}
