"""The kernel's messages that quote texts of users: none is a signal, by any way to read the log."""

import pytest

from tests.fuzz.quoted_texts import MODES, quoted, signals, texts


def test_the_corpus_is_as_described() -> None:
    assert len(quoted()) >= 50
    assert len(texts()) >= 300
    assert len({quote.format for quote in quoted()}) == len(quoted())
    for quote in quoted():
        assert quote.format.count("{text}") == 1
        assert quote.source.endswith(".c")
        assert quote.who
        assert quote.subsystem


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cut", [973, 1021])
def test_no_text_of_a_user_is_a_signal(mode: str, cut: int) -> None:
    received = [
        (quote.format, text, found)
        for quote in quoted()
        for text in texts()
        if (found := signals(mode, quote.message(text), cut))
    ]
    assert received == []


@pytest.mark.parametrize("mode", MODES)
def test_the_same_line_is_a_signal_where_the_driver_writes_it(mode: str) -> None:
    """Else the rest would prove nothing."""
    line = b"NVRM: Xid (PCI:0000:2a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off"
    (received,) = signals(mode, line + b"\n", 1021)
    assert (received.code, received.bus_id) == (79, "0000:2a:00.0")
