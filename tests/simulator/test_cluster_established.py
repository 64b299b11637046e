"""What the API server says of CRDs, until it has accepted all of them."""

import json
from collections.abc import Mapping

from simulator.cluster.objects import not_established

ACCEPTED = {"conditions": [{"type": "Established", "status": "True"}]}
NEW: Mapping[str, object] = {}
REFUSED = {
    "conditions": [
        {"type": "NamesAccepted", "status": "False", "reason": "ShortNamesConflict"},
        {"type": "Established", "status": "False"},
    ]
}


def waiting(**statuses: Mapping[str, object]) -> str:
    items = [{"metadata": {"name": name}, "status": status} for name, status in statuses.items()]
    return not_established(json.dumps({"items": items}).encode())


def test_accepted_ones_are_not_waited_for() -> None:
    assert waiting(nodes=ACCEPTED, reports=ACCEPTED) == ""


def test_one_that_the_api_server_has_not_looked_at_yet_is_waited_for() -> None:
    assert waiting(nodes=NEW, reports=ACCEPTED) == "nodes"


def test_refused_ones_are_named() -> None:
    assert waiting(nodes=REFUSED, reports=NEW, jobs=ACCEPTED) == "nodes, reports"
