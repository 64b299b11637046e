"""Somebody else is faster, or the server fails half-way: what is written, and what is said."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest

from draguard.__main__ import main
from draguard.cluster.cordon_rule import KEY, Cordon, manifest
from kubeapi.client import NotFound
from remediator.model.incident import IncidentSpec
from remediator.model.incident_status import Target, merge_patch
from tests.chain.proxy import Proxy, Write
from tests.chain.scene import INCIDENTS
from tests.draguard.fleet import SLICED, Fleet
from tests.draguard.test_cli_errors import config, written
from tests.lab.cluster import RULES, Json
from tests.remediator.builders import DRIVER, T0, make_status

INCIDENT = "gpu-raced-1"
THEIRS = {"until": "2099-01-01T00:00:00Z", "by": "ben", "reason": "mine"}
GIVEN = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
"""What an API server gives to an object."""
WHO = "selfsubjectreviews"
"""Who asks is asked once more after everything was read, and before anything is written."""


class Ended(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def proxy(fleet: Fleet) -> Iterator[Proxy]:
    with Proxy(fleet.cluster.plane.endpoint()) as one:
        yield one


@pytest.fixture
def run(
    proxy: Proxy,
    fleet: Fleet,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Run]:
    """Run a command through the proxy."""
    token = fleet.cluster.plane.endpoint().token or ""
    path = written(tmp_path_factory.mktemp("kube"), "config", config(proxy.url, token))

    def ran(*arguments: str) -> Ended:
        capsys.readouterr()
        status = main([*arguments, "--kubeconfig", str(path)])
        stated = capsys.readouterr()
        return Ended(status, stated.out, stated.err)

    fleet.incident(
        INCIDENT, IncidentSpec(node="node-a", uuid="GPU-x"), make_status(fault_class="lost")
    )
    yield ran
    with suppress(NotFound):
        fleet.cluster.client.delete(f"{INCIDENTS}/{INCIDENT}")
    for name in cordons(fleet):
        fleet.cluster.client.delete(f"{RULES}/{name}")


def cordons(fleet: Fleet) -> dict[str, Json]:
    every = fleet.cluster.items(RULES)
    return {rule["metadata"]["name"]: rule for rule in every if rule["spec"]["taint"]["key"] == KEY}


def effects(fleet: Fleet) -> list[str]:
    return [cordon["spec"]["taint"]["effect"] for cordon in cordons(fleet).values()]


def after(proxy: Proxy, part: str, do: Callable[[], object], *, nth: int = 1) -> None:
    """Do something when the n-th write to such a path is stored, before its writer hears of it."""
    seen: list[Write] = []

    def hook(write: Write) -> None:
        if part in write[1]:
            seen.append(write)
            if len(seen) == nth:
                do()

    proxy.after_write = hook


def refusing(proxy: Proxy, status: int, path: str) -> Callable[[], None]:
    def begin() -> None:
        proxy.refuse, proxy.refused_path = status, path

    return begin


def cut_off() -> None:
    """End the connection: the write is stored, and its writer hears nothing."""
    raise ConnectionResetError


def cordon_of(device: str, by: str = "ana") -> Json:
    target = Target(DRIVER, "node-a", device, "GPU-x")
    one = Cordon(target=target, gpu="GPU-x", effect="NoSchedule", by=by, reason="thermal paste")
    body: Json = manifest(one, "v1", T0)
    return body


class TestAnIntent:
    def test_is_written_though_the_remediator_was_faster(
        self, run: Run, proxy: Proxy, fleet: Fleet
    ) -> None:
        status = {"status": {"phase": "Tainted", "message": "news"}}
        path = f"{INCIDENTS}/{INCIDENT}"
        after(proxy, WHO, lambda: fleet.cluster.client.merge_patch(f"{path}/status", status), nth=2)

        assert run("hold", INCIDENT, "--until", "1h", "--reason", "x").status == 0

        stored = fleet.cluster.get(path)
        assert stored["spec"]["hold"]["reason"] == "x"
        assert stored["status"]["message"] == "news"

    @pytest.mark.parametrize("more", [(), ("--overwrite",)], ids=["plain", "overwriting"])
    def test_of_another_user_is_not_lost(
        self, more: tuple[str, ...], run: Run, proxy: Proxy, fleet: Fleet
    ) -> None:
        """Whoever overwrites means what he has read, and not what has come since."""
        theirs = {"spec": {"hold": THEIRS}}
        path = f"{INCIDENTS}/{INCIDENT}"
        after(proxy, WHO, lambda: fleet.cluster.client.merge_patch(path, theirs), nth=2)

        ended = run("hold", INCIDENT, "--until", "1h", "--reason", "x", *more)

        assert (ended.status, ended.out) == (1, "")
        words = "another user has just changed gpu-raced-1: hold until 2099-01-01T00:00:00Z by ben"
        assert words in ended.err
        assert fleet.cluster.get(path)["spec"]["hold"] == THEIRS

    def test_comes_too_late_for_an_incident_that_is_closed_or_gone(
        self, run: Run, proxy: Proxy, fleet: Fleet
    ) -> None:
        path, client = f"{INCIDENTS}/{INCIDENT}", fleet.cluster.client
        closed = {"status": merge_patch(make_status(phase="Closed", closed_at=T0))}
        answer = ("hold", INCIDENT, "--until", "1h", "--reason", "x")

        after(proxy, WHO, lambda: client.merge_patch(f"{path}/status", closed), nth=2)
        ended = run(*answer)
        assert (ended.status, ended.out) == (1, "")
        assert "is closed (Closed)" in ended.err

        client.merge_patch(f"{path}/status", {"status": {"history": {"closedTime": None}}})
        after(proxy, WHO, lambda: client.delete(path), nth=2)
        ended = run(*answer)
        assert (ended.status, ended.out) == (1, "")
        assert "gpu-raced-1 was deleted in the meantime" in ended.err

    def test_that_nobody_confirmed_is_not_called_undone(
        self, run: Run, proxy: Proxy, fleet: Fleet
    ) -> None:
        after(proxy, INCIDENT, cut_off)

        ended = run("hold", INCIDENT, "--until", "1h", "--reason", "x")

        assert (ended.status, ended.out) == (1, "")
        assert "It may or may not be done: check, or run the command again" in ended.err
        assert "hold" in fleet.cluster.get(f"{INCIDENTS}/{INCIDENT}")["spec"]


class TestACordon:
    def test_that_somebody_else_was_faster_with_stands(
        self, run: Run, proxy: Proxy, fleet: Fleet
    ) -> None:
        body = cordon_of("gpu-1")
        after(proxy, WHO, lambda: fleet.cluster.client.create(RULES, body), nth=2)

        ended = run("cordon", "node-a/1", "--reason", "x")

        assert (ended.status, ended.err) == (0, "")
        assert "already cordoned by ana: thermal paste" in ended.out
        assert effects(fleet) == ["NoSchedule"]

    def test_that_somebody_else_was_faster_with_is_raised(
        self, run: Run, proxy: Proxy, fleet: Fleet
    ) -> None:
        body = cordon_of("gpu-1")
        after(proxy, WHO, lambda: fleet.cluster.client.create(RULES, body), nth=2)

        assert run("cordon", "node-a/1", "--reason", "x", "--evict").status == 0

        assert effects(fleet) == ["NoExecute"]

    def test_that_somebody_takes_away_meanwhile_is_made_again(
        self, run: Run, proxy: Proxy, fleet: Fleet
    ) -> None:
        body, client = cordon_of("gpu-1"), fleet.cluster.client
        client.create(RULES, body)
        path = f"{RULES}/{body['metadata']['name']}"
        after(proxy, WHO, lambda: client.delete(path), nth=2)

        assert run("cordon", "node-a/1", "--reason", "x", "--evict").status == 0

        (rule,) = cordons(fleet).values()
        assert rule["spec"]["taint"]["effect"] == "NoExecute"
        assert rule["metadata"]["annotations"]["draguard.dev/reason"] == "x"

    def test_of_which_a_part_fails_says_which_and_may_be_given_again(
        self, run: Run, proxy: Proxy, fleet: Fleet
    ) -> None:
        after(proxy, "devicetaintrules", refusing(proxy, 500, "devicetaintrules"))

        ended = run("cordon", SLICED, "--reason", "x")

        assert ended.status == 1
        assert ended.out.count("NOT cordoned: POST ") == 6
        assert "not all of it is done; run the same command again" in ended.out
        assert len(cordons(fleet)) == 1

        proxy.refuse = 0
        ended = run("cordon", SLICED, "--reason", "x")
        assert ended.status == 0
        assert "already cordoned by " in ended.out
        assert len(cordons(fleet)) == 7

    def test_after_a_silence_no_more_is_tried(self, run: Run, proxy: Proxy, fleet: Fleet) -> None:
        after(proxy, "devicetaintrules", cut_off)

        ended = run("cordon", SLICED, "--reason", "x")

        assert ended.status == 1
        assert ended.out.count("NOT verified as cordoned: ") == 1
        assert ended.out.count("NOT tried: the server does not answer") == 6
        assert len(cordons(fleet)) == 1


class TestTakingAway:
    def test_of_which_a_part_fails_tells_what_is_gone_and_what_is_not(
        self, run: Run, proxy: Proxy, fleet: Fleet
    ) -> None:
        run("cordon", SLICED, "--reason", "x")
        forbidden = refusing(proxy, 403, "devicetaintrules/")
        after(proxy, "devicetaintrules", forbidden)

        ended = run("uncordon", SLICED)

        assert ended.status == 1
        assert ended.out.count("NOT uncordoned: DELETE ") == 6
        assert len(cordons(fleet)) == 6

        proxy.refuse = 0
        ended = run("uncordon", SLICED)
        assert (ended.status, ended.out.count("uncordoned\n"), cordons(fleet)) == (0, 6, {})

    def test_that_cannot_be_looked_at_is_not_called_done(
        self, run: Run, proxy: Proxy, fleet: Fleet
    ) -> None:
        run("cordon", "node-a/1", "--reason", "x")
        after(proxy, "devicetaintrules", refusing(proxy, 500, "devicetaintrules"))

        ended = run("uncordon", "node-a/1")

        assert ended.status == 1
        assert "NOT verified as removed: GET " in ended.out
        assert cordons(fleet) == {}

    def test_and_a_cordon_of_somebody_else_at_once_leave_what_came_last(
        self, run: Run, proxy: Proxy, fleet: Fleet
    ) -> None:
        run("cordon", "node-a/1", "--reason", "x")
        body = cordon_of("gpu-1")
        after(proxy, "devicetaintrules", lambda: fleet.cluster.client.create(RULES, body))

        ended = run("uncordon", "node-a/1")

        assert ended.status == 1
        assert "NOT uncordoned: another user has cordoned it again" in ended.out
        assert effects(fleet) == ["NoSchedule"]

    def test_exactly_what_was_seen_goes(self, run: Run, proxy: Proxy, fleet: Fleet) -> None:
        """The cordon that was seen is taken away and made again before ours is deleted."""
        run("cordon", "node-a/1", "--reason", "x")
        run("cordon", "node-a/0", "--reason", "x")
        body, client = cordon_of("gpu-1"), fleet.cluster.client
        first, second = sorted(cordons(fleet))
        body["metadata"]["name"] = second

        def again() -> None:
            client.delete(f"{RULES}/{second}")
            client.create(RULES, body)

        after(proxy, first, again)
        ended = run("uncordon", "--all")

        assert ended.status == 1
        assert "NOT uncordoned: another user has cordoned it again" in ended.out
        assert list(cordons(fleet)) == [second]


def test_a_release_that_cannot_be_looked_at_tells_what_it_has_requested(
    run: Run, proxy: Proxy, fleet: Fleet
) -> None:
    rules = fleet.cluster.items(RULES)
    after(proxy, "devicetaintrules", refusing(proxy, 500, "devicetaintrules"))
    try:
        ended = run("cleanup", "--all", "--yes")
    finally:
        left = {rule["metadata"]["name"] for rule in fleet.cluster.items(RULES)}
        for rule in rules:
            for name in GIVEN:
                rule["metadata"].pop(name, None)
            if rule["metadata"]["name"] not in left:
                fleet.cluster.client.create(RULES, rule)

    assert ended.status == 1
    assert "NOT removed: removal was requested, but could not be verified: " in ended.out
