"""A name that is not there: what is offered instead."""

import pytest

from draguard.phrases import did_you_mean

UUIDS = ["GPU-2fa81118-aa", "GPU-2fa81118-ab", "GPU-77777777-aa", ""]


@pytest.mark.parametrize(
    ("word", "known", "offered"),
    [
        ("statu", ["status", "plan"], " (did you mean status?)"),
        ("nodea/0", ["node-a/0", "rack-7/3"], " (did you mean node-a/0?)"),
        ("gpu-2FA8", UUIDS, " (did you mean GPU-2fa81118-aa or GPU-2fa81118-ab?)"),
        ("node-a", ["node-a/0", "node-a/1", "node-a/2", "node-a/3"], "node-a/2?)"),
        ("something else", ["status"], ""),
        ("", ["status"], ""),
        ("x", [], ""),
    ],
)
def test_what_begins_so_is_offered_and_else_what_is_alike(
    word: str, known: list[str], offered: str
) -> None:
    said = did_you_mean(word, known)

    assert said.endswith(offered)
    assert bool(said) == bool(offered)
