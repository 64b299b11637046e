"""Devices and claims in `draguard status`: the numbers of the remediator's metrics, in words."""

from collections import Counter

import msgspec
import pytest

from draguard.cluster.decide import Deciding
from draguard.cluster.objects import Objects
from draguard.render.plain import plain
from draguard.render.status_page import status_page
from exporter.model.resource_slices import ResourceSlice
from remediator.controller.cluster_metrics import cluster_rows
from remediator.model.claim import Claim, ClaimMeta, Owner
from tests.chain.scene import resource_slice
from tests.draguard.cluster.test_fleet_status import known, looked_at, objects
from tests.remediator.builders import T0, at, gpu, published, with_fields
from tests.remediator.controller.test_cache import raw_rule
from tests.remediator.playing import claim

HELD = claim("gpu-0")
"""It holds gpu-0, which `raw_rule()` taints."""
BOTH = objects(gpu(0), gpu(1), rules=(raw_rule(),), claims=(HELD,))


def line(found: Objects, name: str) -> str:
    """Return the value of one line of the page."""
    lines = plain(status_page(looked_at(found), T0)).splitlines()
    (text,) = (text for text in lines if text.startswith(f"{name} "))
    return text.removeprefix(name).strip()


def without(collection: str, found: Objects = BOTH) -> Objects:
    """Return what a caller sees who may not list a collection."""
    return with_fields(found, **{collection: ()}, missing=frozenset({collection}))


def test_status_counts_an_allocated_and_tainted_device_as_the_metric_does() -> None:
    rows = cluster_rows(Deciding(BOTH, 150).cache, {})["devices"]
    counts = known(looked_at(BOTH).devices).counts

    assert {(key[1], *key[-2:]): number for key, number in rows.items()} == {
        ("gpu", "allocated", "draguard"): 1,
        ("gpu", "free", "none"): 1,
    }
    assert Counter({(of.type, of.state, of.taint): of.number for of in counts}) == {
        (key[1], *key[-2:]): number for key, number in rows.items()
    }
    assert line(BOTH, "devices") == "2 published: 1 allocated (1 tainted by Draguard), 1 free"


def test_taints_of_the_driver_are_counted_beside_those_of_draguard() -> None:
    twelve = [gpu(number) for number in range(12)]
    body = resource_slice("node-a", [part for health in twelve for part in published(health)])
    for device in body["spec"]["devices"][1:]:
        device["taints"] = [{"key": "gpu.nvidia.com/xid", "value": "48", "effect": "NoSchedule"}]
    slices = (msgspec.convert(body, ResourceSlice),)

    assert line(objects(*twelve, slices=slices, rules=(raw_rule(),)), "devices") == (
        "12 published: 0 allocated, 12 free (1 tainted by Draguard, 11 tainted by the driver)"
    )


def test_a_twin_for_passthrough_is_a_device_of_its_own() -> None:
    body = resource_slice("node-a", list(published(gpu(0))))
    (device,) = body["spec"]["devices"]
    twin = device | {"name": "gpu-vfio-0", "attributes": {"type": {"string": "vfio"}}}
    body["spec"]["devices"].append(twin)
    found = objects(gpu(0), slices=(msgspec.convert(body, ResourceSlice),), claims=(HELD,))

    assert line(found, "devices") == "2 published: 1 allocated, 1 free"
    assert [of.type for of in known(looked_at(found).devices).counts] == ["gpu", "vfio"]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (without("claims"), "2 published: 2 of unknown state (1 tainted by Draguard)"),
        (
            without("rules"),
            "2 published: 1 allocated (1 of unknown taint), 1 free (1 of unknown taint)",
        ),
        (
            msgspec.structs.replace(BOTH, unreadable=("1 resourceclaims (odd)",)),
            "2 published: 1 allocated (1 tainted by Draguard), 1 of unknown state",
        ),
        (
            msgspec.structs.replace(BOTH, unreadable=("1 devicetaintrules (odd)",)),
            "2 published: 1 allocated (1 tainted by Draguard), 1 free (1 of unknown taint)",
        ),
        (
            msgspec.structs.replace(BOTH, unreadable=("1 deviceincidents (odd)",)),
            "2 published: 1 allocated (1 tainted by Draguard), 1 free",
        ),
        (
            msgspec.structs.replace(BOTH, unreadable=("40 resourceslices (odd)",)),
            "at least 2 published: 1 allocated (1 tainted by Draguard), 1 free",
        ),
    ],
    ids=["no claims", "no rules", "an odd claim", "an odd rule", "an odd incident", "odd slices"],
)
def test_no_device_is_free_or_untainted_where_not_all_could_be_read(
    found: Objects, words: str
) -> None:
    assert line(found, "devices") == words


def waiting(name: str, made: float, *owners: str) -> Claim:
    by = tuple(map(Owner, owners))
    return Claim(ClaimMeta(name, "team", creation_timestamp=at(made), owner_references=by))


ALONE = waiting("own", -600)
WAITING = (
    waiting("old", -240, "Pod"),
    waiting("new", -5, "PodGroup"),
    waiting("notebook", -600, "Notebook"),
    ALONE,
)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (objects(gpu(0), claims=(*WAITING, HELD)), "2 pending, the oldest for 4m"),
        (objects(gpu(0), claims=(HELD, ALONE)), "0 pending"),
        (without("claims"), "unknown: you may not read it, see below"),
        (
            objects(gpu(0), unreadable=("2 resourceclaims (a, b)",)),
            "0 pending among those that can be read",
        ),
    ],
    ids=["some wait", "none waits", "no claims", "odd claims"],
)
def test_status_says_how_many_claims_are_pending_and_for_how_long(
    found: Objects, words: str
) -> None:
    assert line(found, "claims") == words


def test_a_pending_claim_without_a_date_has_no_age() -> None:
    meta = {"name": "c", "ownerReferences": [{"kind": "Pod"}]}
    found = objects(gpu(0), claims=(msgspec.convert({"metadata": meta}, Claim),))

    assert line(found, "claims") == "1 pending"


def test_without_dynamic_resource_allocation_no_line_speaks_of_claims() -> None:
    found = objects(gpu(0), slices=(), dra_version=None)

    assert "\nclaims" not in plain(status_page(looked_at(found), T0))


def test_a_sum_without_the_slices_that_cannot_be_read_is_not_known() -> None:
    odd = msgspec.structs.replace(BOTH, slices=(), unreadable=("2 resourceslices (odd)",))

    assert known(looked_at(odd).devices).published is None
    assert line(odd, "devices").startswith("at least 0 published")
