"""Whether an SXid whose line does not say so is fatal."""

import pytest

from exporter.model.xid import sxid_fatal


@pytest.mark.parametrize(
    ("code", "fatal"), [(23001, True), (12020, True), (11012, False), (20034, None), (1, None)]
)
def test_always_never_and_it_depends(code: int, fatal: bool | None) -> None:
    assert sxid_fatal(code) is fatal
