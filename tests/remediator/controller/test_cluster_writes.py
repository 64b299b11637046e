"""Steps against a real API server: with preconditions, by the leader, at a pace."""

from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pytest

from exporter.model.device import Device
from kubeapi.client import ApiError, Client, Conflict, NotFound
from kubeapi.store import Change
from kubeapi.types import ObjectMeta
from remediator.controller.cache import Cache
from remediator.controller.feature_gates import StatedRule
from remediator.controller.rate_limit import Pace, PacedError
from remediator.controller.versions import RULE_VERSIONS, Versioned
from remediator.controller.writes import NotLeadingError, RulesNotServedError, Writer
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.taint_rule import Rule, manifest
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteRule,
    OpenIncident,
)
from tests.lab.cluster import RULES, Cluster, await_true


def wanted(effect: str = "NoSchedule", device: str = "gpu-0") -> Rule:
    return msgspec.convert(
        {
            "device": Device("gpu.nvidia.com", "node-a", device),
            "effect": effect,
            "fault": "gpu",
            "cause": "xid-95",
            "incident": "gpu-a-1",
            "uuid": "GPU-a",
            "gpu": "GPU-a",
            "node": "node-a",
        },
        Rule,
    )


class Hands:
    """A writer with a world of its own that hears of rules alone."""

    def __init__(self, client: Client, *, versions: tuple[str, ...] = RULE_VERSIONS) -> None:
        self.cache = Cache(lambda _: None)
        self.rules = Versioned(client, "devicetaintrules", versions, StatedRule, self._heard)
        self.rules.probe()
        self.leading = True
        self.hurry = False
        # By a clock that stands: how long a write takes here is no time in which a turn comes.
        self.pace = Pace(1, 20, clock=lambda: 0.0, hurried=lambda: self.hurry)
        self.writer = Writer(client, self.cache, self.rules, self.pace, lambda: self.leading)

    def _heard(self, change: Change[StatedRule]) -> None:
        self.cache.rule(change.key, change.new)

    def stored(self) -> Rule:
        (one,) = self.cache.rules()
        return one

    def deleted(self) -> bool:
        """Delete the rule, unless its status was written meanwhile and not heard of yet."""
        try:
            self.writer.take(DeleteRule(self.stored(), "over"))
        except Conflict:
            return False
        return True

    def settled(self, cluster: Cluster) -> Rule:
        """Return the rule when the eviction controller has said its word about it."""

        def same() -> bool:
            (there,) = cluster.items(RULES)
            told = "conditions" in there.get("status", {})
            return told and there["metadata"]["resourceVersion"] == self.stored().resource_version

        await_true("the rule's status was written and heard of", same)
        return self.stored()


@pytest.fixture
def hands(cluster: Cluster) -> Iterator[Hands]:
    one = Hands(cluster.client)
    yield one
    one.writer.stop()
    one.rules.stop()


def test_a_rule_is_made_raised_with_a_new_time_and_deleted(hands: Hands, cluster: Cluster) -> None:
    hands.writer.take(CreateRule(wanted()))
    mild = hands.settled(cluster)
    hands.writer.take(ChangeRule(mild, wanted("NoExecute")))
    strong = hands.stored()
    assert (strong.uid, strong.effect) == (mild.uid, "NoExecute")
    assert mild.time_added is not None
    assert strong.time_added is not None
    assert strong.time_added >= mild.time_added

    await_true("it is deleted", hands.deleted)

    assert cluster.items(RULES) == []
    # The watch may still tell of the rule as it was when its deletion was answered.
    await_true("nothing of it is known", lambda: not hands.cache.rules())


def test_a_rule_of_a_crashed_run_is_adopted(hands: Hands, cluster: Cluster) -> None:
    cluster.client.create(RULES, manifest(wanted(), "v1"))

    hands.writer.take(CreateRule(wanted()))

    assert hands.stored().uid == cluster.items(RULES)[0]["metadata"]["uid"]


def test_a_rule_of_a_crashed_run_that_says_something_else_is_heard_of_and_decided_anew(
    hands: Hands, cluster: Cluster
) -> None:
    cluster.client.create(RULES, manifest(wanted("NoExecute"), "v1"))

    with pytest.raises(Conflict):
        hands.writer.take(CreateRule(wanted()))

    assert hands.stored().effect == "NoExecute"


def test_an_object_of_our_name_that_is_not_ours_is_left_alone_and_named(
    hands: Hands, cluster: Cluster
) -> None:
    body = msgspec.json.decode(msgspec.json.encode(manifest(wanted(), "v1")))
    body["spec"]["taint"]["key"] = "example.com/mine"
    cluster.client.create(RULES, body)

    with pytest.raises(
        ApiError, match=r"DeviceTaintRule draguard-\w+ exists and is not Draguard's"
    ):
        hands.writer.take(CreateRule(wanted()))

    assert cluster.items(RULES)[0]["spec"]["taint"]["key"] == "example.com/mine"


def test_what_somebody_changed_meanwhile_is_neither_raised_nor_deleted(
    hands: Hands, cluster: Cluster
) -> None:
    hands.writer.take(CreateRule(wanted()))
    stored = hands.settled(cluster)
    hands.rules.stop()
    path = f"{RULES}/{stored.name}"
    cluster.client.merge_patch(path, {"metadata": {"annotations": {"note": "looked at"}}})

    for step in (ChangeRule(stored, wanted("NoExecute")), DeleteRule(stored, "over")):
        with pytest.raises(Conflict):
            hands.writer.take(step)

    (there,) = cluster.items(RULES)
    assert there["spec"]["taint"]["effect"] == "NoSchedule"


def test_a_rule_that_somebody_deleted_is_not_raised_and_its_deletion_is_done(
    hands: Hands, cluster: Cluster
) -> None:
    hands.writer.take(CreateRule(wanted()))
    stored = hands.stored()
    cluster.client.delete(f"{RULES}/{stored.name}")

    with pytest.raises(NotFound):
        hands.writer.take(ChangeRule(stored, wanted("NoExecute")))
    hands.writer.take(DeleteRule(stored, "over"))

    assert cluster.items(RULES) == []


def test_a_replica_that_does_not_lead_sends_nothing(hands: Hands, cluster: Cluster) -> None:
    hands.leading = False

    with pytest.raises(NotLeadingError):
        hands.writer.take(CreateRule(wanted()))

    assert cluster.items(RULES) == []


def test_a_taint_and_a_release_never_wait_and_an_eviction_does(
    hands: Hands, cluster: Cluster
) -> None:
    while not hands.pace.ask():
        pass

    hands.writer.take(CreateRule(wanted()))
    with pytest.raises(PacedError):
        hands.writer.take(ChangeRule(hands.stored(), wanted("NoExecute")))
    await_true("it is deleted", hands.deleted)

    assert cluster.items(RULES) == []


def test_what_was_decided_while_rules_were_not_served_deletes_none(
    hands: Hands, cluster: Cluster
) -> None:
    hands.writer.take(CreateRule(wanted()))
    stored = hands.settled(cluster)
    hands.rules.version = None
    hands.writer.turn_to("node-a")
    hands.rules.probe()

    with pytest.raises(RulesNotServedError, match="changed while this was decided"):
        hands.writer.take(DeleteRule(stored, "the policy wants none"))
    assert len(cluster.items(RULES)) == 1

    hands.writer.turn_to("node-a")
    await_true("it is deleted by a decision of now", hands.deleted)


def test_while_other_nodes_wait_for_their_taints_a_rule_goes_and_its_incident_waits(
    hands: Hands, cluster: Cluster
) -> None:
    incident = Incident(ObjectMeta(name="gpu-a-1"), IncidentSpec("node-a", "GPU-a"))
    hands.hurry = True

    hands.writer.turn_to("node-a")
    hands.writer.take(CreateRule(wanted()))
    with pytest.raises(PacedError):
        hands.writer.take(OpenIncident(incident))
    hands.writer.turn_to("node-a")
    assert len(cluster.items(RULES)) == 1

    hands.hurry = False
    # It is sent now, whether this server knows incidents or not.
    with suppress(NotFound):
        hands.writer.take(OpenIncident(incident))


def test_without_rules_in_the_api_it_is_said_what_turns_them_on(cluster: Cluster) -> None:
    hands = Hands(cluster.client, versions=("v9",))

    with pytest.raises(RulesNotServedError, match="DRADeviceTaintRules"):
        hands.writer.take(CreateRule(wanted()))
