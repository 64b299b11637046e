"""Which single change is offered for a claim that waits, and that it is one that helps."""

from typing import Any

from allocation.answers import Answers
from allocation.model.claims import Claim
from allocation.model.slices import ResourceSlice
from allocation.remedies import Scene, remedies
from tests.allocation.builders import (
    CLASSES,
    NODE,
    device,
    evaluate,
    has,
    in_slice,
    request,
    waiting,
)

LOST = {"key": "gpu.nvidia.com/xid", "value": "xid-79", "effect": "NoExecute"}
XID = "gpu.nvidia.com/xid of gpu.nvidia.com/node-a"
GPU = {"attributes": {"type": {"string": "gpu"}, "root": {"string": "pci-0"}}}
OTHER = {"attributes": {"type": {"string": "gpu"}, "root": {"string": "pci-1"}}}


def offered(
    slices: ResourceSlice, waits: Claim | tuple[Claim, ...], *claims: Claim
) -> list[tuple[str, str]]:
    together = waits if isinstance(waits, tuple) else (waits,)
    scene = Scene(together, (slices,), claims, CLASSES)
    return [(each.what, each.which) for each in remedies(scene, NODE, Answers(evaluate))]


def selector(text: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": text}}]}


def test_nothing_is_offered_where_the_claim_can_be_allocated() -> None:
    assert offered(in_slice(device("gpu-0")), waiting()) == []


def test_the_claim_that_has_the_only_device() -> None:
    assert offered(in_slice(device("gpu-0")), waiting(), has("gpu-0")) == [("Free", "team/other")]


def test_a_taint_a_selector_and_nothing_that_does_not_help() -> None:
    """The tainted device is the only one that the selector matches."""
    slices = in_slice(device("gpu-0", taints=[LOST], **GPU), device("gpu-1"))

    found = offered(slices, waiting(request(**selector("type:gpu"))), has("gpu-9"))

    assert found == [("DropSelector", "type:gpu"), ("Untaint", f"{XID}/gpu-0")]


def test_one_device_that_is_repaired_is_named_and_two_are_no_single_change() -> None:
    slices = in_slice(device("gpu-0", taints=[LOST]), device("gpu-1", taints=[LOST]))

    assert offered(slices, waiting()) == [("Untaint", f"{XID}/gpu-0")]
    assert offered(slices, waiting(request(count=2))) == []


def test_two_reasons_on_the_only_device_have_no_single_change() -> None:
    tainted = in_slice(device("gpu-0", taints=[LOST]))

    assert offered(tainted, waiting(), has("gpu-0")) == []


def test_a_constraint_or_one_device_less() -> None:
    slices = in_slice(device("gpu-0", **GPU), device("gpu-1", **OTHER))
    same = ({"matchAttribute": "gpu.nvidia.com/root"},)

    found = offered(slices, waiting(request(count=2), constraints=same))

    assert found == [("DropConstraint", "gpu.nvidia.com/root"), ("OneDevice", "team/job/r")]


def test_a_change_must_serve_all_claims_of_the_pod() -> None:
    """Two claims and one device: to free it is not enough for both."""
    both = (waiting(), waiting(name="second"))

    assert offered(in_slice(device("gpu-0")), both, has("gpu-0")) == []
