"""Pods on devices into those whose work another system drains, by the remediator's own table.

Only their controllers say so. They are read one by one, because the caller may have rights in some
namespaces alone.
"""

from collections.abc import Iterable, Mapping

import msgspec

from draguard.cluster.device_pods import Holder
from draguard.cluster.listing import listed
from draguard.connection.errors import forbidden
from draguard.phrases import some
from kubeapi.client import UNREADABLE, ApiError, Client, NotFound
from remediator.controller.emergency import FORBIDDEN
from remediator.model.pod import PodFacts, RawPod, facts_of
from remediator.plan.pods import DRAINERS, drainer

_GROUP = "podgroups/"


class Owned(msgspec.Struct, frozen=True):
    holders: tuple[Holder, ...]
    unseen: tuple[str, ...] = ()
    """Why it is not known of some pods, one sentence each."""


def with_owners(client: Client, holders: Iterable[Holder]) -> Owned:
    """Mark the pods that another system drains. Raises ApiError where the server does not answer.

    Of a PodGroup, one such pod is enough.
    """
    found = tuple(holders)
    unseen: dict[str, list[str]] = {}
    words: dict[tuple[str, str], str] = {}
    for namespace, pod in dict.fromkeys((each.namespace, each.pod) for each in found):
        try:
            pods = _pods(client, namespace, pod)
        except ApiError as error:
            if error.status is None:
                raise
            why = forbidden(error.message) if error.status == FORBIDDEN else error.message
            unseen.setdefault(why, []).append(f"{namespace}/{pod}")
            continue
        drainers = (drainer(each) for each in pods if each.running)
        words[namespace, pod] = next((each.word for each in drainers if each), "")
    return Owned(
        tuple(
            msgspec.structs.replace(each, drained_by=words.get((each.namespace, each.pod), ""))
            for each in found
        ),
        tuple(
            f"whether an eviction kills work of another system is unknown for {some(pods)}: {why}"
            for why, pods in unseen.items()
        ),
    )


def _pods(client: Client, namespace: str, pod: str) -> list[PodFacts]:
    path = f"/api/v1/namespaces/{namespace}/pods"
    if pod.startswith(_GROUP):
        members = map(facts_of, listed(client, path, RawPod)[0])
        return [each for each in members if each.pod_group == pod.removeprefix(_GROUP)]
    try:
        return [facts_of(msgspec.json.decode(client.get(f"{path}/{pod}"), type=RawPod))]
    except NotFound:
        return []
    except UNREADABLE as error:
        raise ApiError(f"GET {path}/{pod}: it cannot be read ({error})", status=200) from error


def warnings(owned: Owned) -> tuple[str, ...]:
    """Say what evictions would do to work of other systems, and what to do instead."""
    by: dict[str, list[str]] = {}
    for each in owned.holders:
        if each.drained_by and not each.stays:
            by.setdefault(each.drained_by, []).append(f"{each.namespace}/{each.pod}")
    known: Mapping[str, str] = {
        each.word: f"{each.what}, and {each.effect}. What to do first: {each.remedy}"
        for each in DRAINERS.values()
    }
    drained = (f"{some(dict.fromkeys(pods))}: {known[word]}" for word, pods in by.items())
    return (*drained, *owned.unseen)
