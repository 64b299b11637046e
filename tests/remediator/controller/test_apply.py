"""Steps against a real API server: with preconditions, by the leader, at a pace."""

from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pytest

from kubeapi.client import ApiError, Client, Conflict, NotFound
from kubeapi.store import Change
from kubeapi.versions import RULE_VERSIONS, Versioned
from remediator.controller.apply import NotLeadingError, RulesNotServedError, Writer
from remediator.controller.cache import Cache
from remediator.controller.feature_gates import StatedRule
from remediator.controller.rate_limit import Pace, PacedError
from remediator.controller.rejected_fields import Unstored
from remediator.model.taint_rule import Rule, manifest
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteRule,
    OpenIncident,
)
from tests.lab.cluster import RULES, Cluster, await_true
from tests.remediator.builders import incident, rule, uuid
from tests.remediator.controller.test_cache import slice_of


class Controller:
    """A writer with a world of its own that hears of rules alone."""

    def __init__(self, client: Client, *, versions: tuple[str, ...] = RULE_VERSIONS) -> None:
        self.cache = Cache(lambda _: None)
        self.rules = Versioned(client, "devicetaintrules", versions, StatedRule, self._received)
        self.rules.probe()
        self.leading = True
        self.hurry = False
        # By a clock that stands: how long a write takes here is no time in which a turn comes.
        self.pace = Pace(1, 20, clock=lambda: 0.0, has_urgent=lambda: self.hurry)
        self.writer = Writer(
            client, self.cache, self.rules, self.pace, lambda: self.leading, unstored=Unstored()
        )

    def _received(self, change: Change[StatedRule]) -> None:
        self.cache.put_rule(change.key, change.new)

    def stored(self) -> Rule:
        (one,) = self.cache.rules()
        return one

    def deleted(self) -> bool:
        """Delete the rule, unless its status was written meanwhile and not observed yet."""
        try:
            self.writer.apply(DeleteRule(self.stored(), "over"))
        except Conflict:
            return False
        return True

    def settled(self, cluster: Cluster) -> Rule:
        """Return the rule when the eviction controller has said its word about it."""

        def same() -> bool:
            (there,) = cluster.items(RULES)
            reported = "conditions" in there.get("status", {})
            return (
                reported and there["metadata"]["resourceVersion"] == self.stored().resource_version
            )

        await_true("the rule's status was written and observed", same)
        return self.stored()


@pytest.fixture
def controller(cluster: Cluster) -> Iterator[Controller]:
    one = Controller(cluster.client)
    yield one
    one.writer.stop()
    one.rules.stop()


def test_a_rule_is_made_raised_with_a_new_time_and_deleted(
    controller: Controller, cluster: Cluster
) -> None:
    controller.writer.apply(CreateRule(rule()))
    mild = controller.settled(cluster)
    controller.writer.apply(ChangeRule(mild, rule(effect="NoExecute")))
    strong = controller.stored()
    assert (strong.uid, strong.effect) == (mild.uid, "NoExecute")
    assert mild.time_added is not None
    assert strong.time_added is not None
    assert strong.time_added >= mild.time_added

    await_true("it is deleted", controller.deleted)

    assert cluster.items(RULES) == []
    # The watch may still tell of the rule as it was when its deletion was answered.
    await_true("nothing of it is known", lambda: not controller.cache.rules())


def test_a_rule_of_a_crashed_run_is_adopted(controller: Controller, cluster: Cluster) -> None:
    cluster.client.create(RULES, manifest(rule(), "v1"))

    controller.writer.apply(CreateRule(rule()))

    assert controller.stored().uid == cluster.items(RULES)[0]["metadata"]["uid"]


def test_a_rule_of_a_crashed_run_that_says_something_else_is_read_and_decided_anew(
    controller: Controller, cluster: Cluster
) -> None:
    cluster.client.create(RULES, manifest(rule(effect="NoExecute"), "v1"))

    with pytest.raises(Conflict):
        controller.writer.apply(CreateRule(rule()))

    assert controller.stored().effect == "NoExecute"


def test_a_rule_of_ours_without_any_mark_is_read_by_what_is_published(
    controller: Controller, cluster: Cluster
) -> None:
    controller.cache.put_slice("s1", None, slice_of("node-a", 0))
    body = msgspec.json.decode(msgspec.json.encode(manifest(rule(), "v1")))
    body["metadata"] |= {"labels": {}, "annotations": {}}
    cluster.client.create(RULES, body)

    with pytest.raises(Conflict):
        controller.writer.apply(CreateRule(rule()))

    assert (controller.stored().gpu, controller.stored().stripped) == (uuid(0), True)


def test_an_object_of_our_name_that_is_not_ours_is_left_alone_and_named(
    controller: Controller, cluster: Cluster
) -> None:
    body = msgspec.json.decode(msgspec.json.encode(manifest(rule(), "v1")))
    body["spec"]["taint"]["key"] = "example.com/mine"
    cluster.client.create(RULES, body)

    with pytest.raises(
        ApiError, match=r"DeviceTaintRule draguard-\w+ exists and is not Draguard's"
    ):
        controller.writer.apply(CreateRule(rule()))

    assert cluster.items(RULES)[0]["spec"]["taint"]["key"] == "example.com/mine"


def test_what_somebody_changed_meanwhile_is_neither_raised_nor_deleted(
    controller: Controller, cluster: Cluster
) -> None:
    controller.writer.apply(CreateRule(rule()))
    stored = controller.settled(cluster)
    controller.rules.stop()
    path = f"{RULES}/{stored.name}"
    cluster.client.merge_patch(path, {"metadata": {"annotations": {"note": "looked at"}}})

    for step in (ChangeRule(stored, rule(effect="NoExecute")), DeleteRule(stored, "over")):
        with pytest.raises(Conflict):
            controller.writer.apply(step)

    (there,) = cluster.items(RULES)
    assert there["spec"]["taint"]["effect"] == "NoSchedule"


def test_a_rule_that_somebody_deleted_is_not_raised_and_its_deletion_is_done(
    controller: Controller, cluster: Cluster
) -> None:
    controller.writer.apply(CreateRule(rule()))
    stored = controller.stored()
    cluster.client.delete(f"{RULES}/{stored.name}")

    with pytest.raises(NotFound):
        controller.writer.apply(ChangeRule(stored, rule(effect="NoExecute")))
    controller.writer.apply(DeleteRule(stored, "over"))

    assert cluster.items(RULES) == []


def test_a_replica_that_does_not_lead_sends_nothing(
    controller: Controller, cluster: Cluster
) -> None:
    controller.leading = False

    with pytest.raises(NotLeadingError):
        controller.writer.apply(CreateRule(rule()))

    assert cluster.items(RULES) == []


def test_a_taint_and_a_release_never_wait_and_an_eviction_does(
    controller: Controller, cluster: Cluster
) -> None:
    while not controller.pace.ask():
        pass

    controller.writer.apply(CreateRule(rule()))
    with pytest.raises(PacedError):
        controller.writer.apply(ChangeRule(controller.stored(), rule(effect="NoExecute")))
    await_true("it is deleted", controller.deleted)

    assert cluster.items(RULES) == []


def test_what_was_decided_while_rules_were_not_served_deletes_none(
    controller: Controller, cluster: Cluster
) -> None:
    controller.writer.apply(CreateRule(rule()))
    stored = controller.settled(cluster)
    controller.rules.version = None
    controller.writer.turn_to("node-a")
    controller.rules.probe()

    with pytest.raises(RulesNotServedError, match="changed while this was decided"):
        controller.writer.apply(DeleteRule(stored, "the policy wants none"))
    assert len(cluster.items(RULES)) == 1

    controller.writer.turn_to("node-a")
    await_true("it is deleted by a decision of now", controller.deleted)


def test_while_other_nodes_wait_for_their_taints_a_rule_goes_and_its_incident_waits(
    controller: Controller, cluster: Cluster
) -> None:
    opening = OpenIncident(incident())
    controller.hurry = True

    controller.writer.turn_to("node-a")
    controller.writer.apply(CreateRule(rule()))
    with pytest.raises(PacedError):
        controller.writer.apply(opening)
    controller.writer.turn_to("node-a")
    assert len(cluster.items(RULES)) == 1

    controller.hurry = False
    # It is sent now, whether this server knows incidents or not.
    with suppress(NotFound):
        controller.writer.apply(opening)


def test_without_rules_in_the_api_it_is_reported_what_turns_them_on(cluster: Cluster) -> None:
    controller = Controller(cluster.client, versions=("v9",))

    with pytest.raises(RulesNotServedError, match="DRADeviceTaintRules"):
        controller.writer.apply(CreateRule(rule()))
