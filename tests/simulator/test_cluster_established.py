"""CRDs are waited for, though kubectl gives up on one that the API server has not looked at yet."""

import pytest

from simulator.cluster.controlplane import ControlPlane, ControlPlaneError

NO_CONDITIONS = "error: .status.conditions accessor error: <nil> is of the type <nil>"


class Answering(ControlPlane):
    """Its kubectl fails with these words, one after the other, and then succeeds."""

    def __init__(self, *errors: str) -> None:
        super().__init__()
        self.errors = list(errors)
        self.calls = 0

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> str:
        assert (arguments[0], stdin, timeout > 0) == ("wait", None, True)
        self.calls += 1
        if self.errors:
            raise ControlPlaneError(self.errors.pop(0))
        return ""


def test_one_without_conditions_is_waited_for() -> None:
    plane = Answering(NO_CONDITIONS, NO_CONDITIONS)

    plane.await_established("crd/nodes.example.com")

    assert plane.calls == 3


def test_any_other_error_ends_the_wait() -> None:
    plane = Answering("error: timed out waiting for the condition")

    with pytest.raises(ControlPlaneError, match="timed out"):
        plane.await_established("crd/nodes.example.com")
    assert plane.calls == 1


def test_the_wait_has_an_end() -> None:
    plane = Answering(*[NO_CONDITIONS] * 9)

    with pytest.raises(ControlPlaneError, match="accessor error"):
        plane.await_established("crd/nodes.example.com", seconds=0.01)
