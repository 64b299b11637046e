"""Signals that an incident has taken in, as they are stored."""

import msgspec

from remediator.diagnose.fault import Record
from remediator.model.incident_status import SeenSignal
from tests.remediator.builders import T0, xid


def test_one_stored_without_an_instance_is_the_record_that_names_none() -> None:
    stored = {"code": 79, "count": 1, "firstSeenTime": T0.isoformat()}

    assert msgspec.convert(stored, SeenSignal).key == Record.of(xid(79)).key == (79, -1, -1, -1)
