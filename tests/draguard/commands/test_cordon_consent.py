"""Before pods are deleted the user confirms exactly those that will be."""

import argparse
import io
import sys
from datetime import UTC, datetime

import msgspec
import pytest

from draguard.cluster.cordon_rule import Cordon
from draguard.cluster.device_pods import Holder
from draguard.cluster.find_device import NamedDevices
from draguard.cluster.objects import Objects
from draguard.cluster.pod_owners import Owned
from draguard.cluster.reading import Reader
from draguard.commands.cordon import agreed_pods
from remediator.model.claim import Claim, Toleration
from remediator.model.incident_status import Target
from tests.draguard.cluster.test_find_device import tolerating
from tests.remediator.builders import DRIVER, uuid
from tests.remediator.playing import claim

TARGET = Target(DRIVER, "node-a", "gpu-0", uuid(0))
NAMED = NamedDevices(gpu=uuid(0), what="the whole GPU", targets=(TARGET,))
CORDON = Cordon(target=TARGET, gpu=uuid(0), effect="NoExecute", by="ana", reason="x")
NOW = datetime(2026, 1, 5, tzinfo=UTC)


class Later(Reader):
    """Reads what is there by the time that a person has answered."""

    def __init__(self, *later: Objects) -> None:
        self._later = list(later)

    def objects(self, *desired: str, spared: object = ()) -> Objects:  # noqa: ARG002 - as the reader's
        return self._later.pop(0)


class Person(io.StringIO):
    def isatty(self) -> bool:
        return True


def held(*pods: str, unreadable: tuple[str, ...] = ()) -> Objects:
    return of(*(claim("gpu-0", pod, namespace="ns") for pod in pods), unreadable=unreadable)


def of(*claims: Claim, unreadable: tuple[str, ...] = ()) -> Objects:
    return Objects(server="s", at=NOW, claims=claims, unreadable=unreadable)


def consented(
    monkeypatch: pytest.MonkeyPatch, types: str, first: Objects, *later: Objects, yes: bool = False
) -> list[str] | None:
    """Gives who is on the device where it was agreed, None where it was not."""
    monkeypatch.setattr(sys, "stdin", Person(types))
    options = argparse.Namespace(evict=True, dry_run=False, yes=yes)
    found = agreed_pods(Later(*later), first, (NAMED,), (CORDON,), options, owners=slurms)
    return None if found is None else [holder.pod for holder in found.holders]


def slurms(pods: tuple[Holder, ...]) -> Owned:
    """Have a pod of the name `slurm` be of a NodeSet."""
    marked = (
        msgspec.structs.replace(each, drained_by="NodeSet" if each.pod == "slurm" else "")
        for each in pods
    )
    return Owned(tuple(marked), ("of none else is it known",))


def test_a_pod_that_comes_while_the_user_reads_needs_a_confirmation_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two = held("first", "second")

    assert consented(monkeypatch, "yes\nyes\n", held("first"), two, two) == ["first", "second"]
    assert capsys.readouterr().err.count("ns/second") == 1
    assert consented(monkeypatch, "yes\nno\n", held("first"), two) is None


def test_who_has_gone_meanwhile_is_no_new_question(monkeypatch: pytest.MonkeyPatch) -> None:
    assert consented(monkeypatch, "yes\n", held("first", "second"), held("second")) == ["second"]


def test_without_pods_nothing_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert consented(monkeypatch, "", held()) == []
    assert consented(monkeypatch, "", held("first"), yes=True) == ["first"]


@pytest.mark.parametrize(
    "toleration",
    [tolerating(toleration_seconds=300), tolerating(operator="Equal", value="ben")],
    ids=["for a while", "somebody else's"],
)
def test_a_pod_that_will_be_deleted_all_the_same_needs_a_confirmation(
    toleration: Toleration, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = claim("gpu-0", "first", tolerations=(toleration,))

    assert consented(monkeypatch, "no\n", of(one)) is None


def test_claims_that_cannot_be_read_may_hold_the_device(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hidden = held(unreadable=("1 resourceclaims (odd)",))

    assert consented(monkeypatch, "no\n", hidden) is None
    assert "pods of claims that this version cannot read (1 resourceclaims (odd))" in (
        capsys.readouterr().err
    )


def test_work_that_an_eviction_kills_is_named_before_the_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert consented(monkeypatch, "no\n", held("slurm", "train")) is None

    facts, _, question = capsys.readouterr().err.partition("Delete them?")
    assert "warning: ns/slurm: pod of a Slinky NodeSet, and an eviction would kill its" in facts
    assert "What to do first: drain its node in Slurm: scontrol update" in facts
    assert "warning: of none else is it known" in facts
    assert "ns/train: pod" not in facts
    assert question
