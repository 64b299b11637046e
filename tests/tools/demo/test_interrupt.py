"""An interrupt comes at once, or when what must not be cut in two is done."""

import signal
from collections.abc import Iterator

import pytest

from tools.demo.interrupt import SIGNALS, Interrupts


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    one = Interrupts()
    with one.installed():
        yield one


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupt_comes_at_once(interrupts: Interrupts, number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_what_must_be_whole_is_finished_first(interrupts: Interrupts) -> None:
    done: list[str] = []

    def step() -> None:
        with interrupts.held():
            signal.raise_signal(signal.SIGINT)
            done.append("finished")

    with pytest.raises(KeyboardInterrupt):
        step()
    assert done == ["finished"]


def test_an_error_inside_is_reported(interrupts: Interrupts) -> None:
    with pytest.raises(ValueError, match="inner"), interrupts.held():
        raise ValueError("inner")


def test_an_error_that_an_interrupt_brought_about_is_none(interrupts: Interrupts) -> None:
    def step() -> None:
        with interrupts.held():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("a child was interrupted, too")

    with pytest.raises(KeyboardInterrupt) as ended:
        step()
    assert isinstance(ended.value.__cause__, ValueError)


def test_the_cleaning_up_is_not_disturbed(interrupts: Interrupts) -> None:
    with interrupts.ignored():
        signal.raise_signal(signal.SIGTERM)
    with interrupts.held():
        pass
