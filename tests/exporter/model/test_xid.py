"""The catalogue is whole, and our grouping of it agrees with NVIDIA's actions."""

from typing import get_args

import pytest

from exporter.model.xid import XidClass, catalogue, lookup


def codes(xid_class: str) -> set[int]:
    return {code for code, row in catalogue().items() if row.xid_class == xid_class}


def test_every_code_from_1_to_176_is_listed() -> None:
    assert sorted(catalogue()) == list(range(1, 177))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (13, "application"),
        (31, "application"),
        (43, "application"),
        (45, "application"),
        (48, "gpu"),
        (63, "information"),
        (64, "gpu"),
        (74, "fabric"),
        (79, "lost"),
        (94, "contained"),
        (95, "gpu"),
        (119, "gpu"),
        (145, "fabric"),
        (151, "node"),
        (154, "information"),
        (175, "gpu"),
        (54, "unknown"),
        (176, "unknown"),
        (999, "unknown"),
    ],
)
def test_a_code_has_its_class(code: int, expected: XidClass) -> None:
    assert lookup(code).xid_class == expected


def test_what_acts_is_never_what_nvidia_tells_to_ignore_or_restart_the_program() -> None:
    harmless = {
        code
        for code, row in catalogue().items()
        if row.immediate_action in ("IGNORE", "RESTART_APP") and row.xid_class != "contained"
    }

    assert not harmless & (codes("gpu") | codes("lost") | codes("node") | codes("fabric"))


def test_every_code_that_nvidia_wants_the_gpu_reset_for_acts() -> None:
    desired = {code for code, row in catalogue().items() if row.immediate_action == "RESET_GPU"}

    assert desired <= codes("gpu") | codes("fabric")


def test_a_class_without_codes_would_be_a_dead_word() -> None:
    assert all(codes(xid_class) for xid_class in get_args(XidClass))


def test_an_unlisted_code_is_a_value_too() -> None:
    assert lookup(4711).mnemonic == "UNKNOWN"
    assert lookup(4711).code == 4711
