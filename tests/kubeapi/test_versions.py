"""A kind that is served in one version, in none, and again."""

from collections.abc import Mapping
from typing import Any

import pytest

from kubeapi import versions
from kubeapi.distrust import distrust_versioned
from kubeapi.versions import RULE_VERSIONS, Versioned
from remediator.model.taint_rule import RawRule


class Unlisted:
    """A watch that has not been listed; notes what is trusted while it is being made."""

    resource, synced = "devicetaintrules", False
    seen: list[str]
    kind: Versioned[Any]

    def __init__(self, *_: object, **__: object) -> None:
        self.seen.append(distrust_versioned(self.kind, "DeviceTaintRules"))

    def items(self) -> Mapping[str, object]:
        return {}

    def start(self) -> None:
        self.seen.append(distrust_versioned(self.kind, "DeviceTaintRules"))

    def stop(self) -> None:
        """Nothing runs."""


def test_served_again_an_old_copy_is_never_taken_for_what_is_stored_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[str | None] = ["v1", None, "v1"]

    def served(*_: object) -> str | None:
        return answers.pop(0)

    monkeypatch.setattr(versions, "served", served)
    monkeypatch.setattr(versions, "Reflector", Unlisted)
    client: Any = None
    kind = Versioned[RawRule](client, "devicetaintrules", RULE_VERSIONS, RawRule, lambda _: None)
    Unlisted.kind, Unlisted.seen = kind, []
    kind.probe()
    first: Any = kind.reflector
    kind.probe()
    first.synced = True  # it was listed before rules were served no more
    kind.probe()

    assert kind.reflector is not first
    not_yet = "devicetaintrules have not been listed yet"
    assert Unlisted.seen == ["DeviceTaintRules are not served", not_yet] * 2
