"""Requests of users for one GPU: `hold`, `ignore` and `repairConfirmed` in its incident's spec.

    spec:
      hold: {until: "2026-07-30T18:00:00Z", by: ana, reason: a training run must end first}
      ignore: {by: ana, reason: a test board}
      repairConfirmed: {by: ana, reason: "new board, ticket 4711"}

Users write them. The remediator reads them and records the state of each in `status.intents`. The
CRD refuses values that could not be parsed, and an admission policy refuses a `by` that is not the
authenticated user.
"""

from datetime import UTC, datetime
from typing import Literal, get_args

from kubeapi.types import Entry

Kind = Literal["Hold", "Ignore", "RepairConfirmed"]
"""`Hold`: no new restriction and no disruption; existing taints stay. `Ignore`: no action on the
fault, unless a worse one comes; our taint rules are deleted. `RepairConfirmed`: the user confirms
the repair of a GPU that verified recovery alone does not untaint."""
KINDS: tuple[Kind, ...] = get_args(Kind)
FIELDS: dict[Kind, str] = {"Hold": "hold", "Ignore": "ignore", "RepairConfirmed": "repairConfirmed"}
"""By kind: its field in the incident's spec."""
LASTING: tuple[Kind, ...] = ("Hold", "Ignore")
"""Kinds that concern the GPU and not one repair. A new incident inherits them while they last."""
NAMES: dict[str, str] = {"RepairConfirmed": "repair confirmed"}
"""By kind: its name in a sentence, where that is not the kind in lower case."""
BY_LIMIT = 512
REASON_LIMIT = 512
"""Maximum number of characters in the CRD."""


class Intent(Entry, frozen=True, kw_only=True):
    until: datetime | None = None
    """When it expires; None: never."""
    by: str
    """Name of the user, as authenticated by the API server."""
    reason: str


class IntentRecord(Intent, frozen=True, kw_only=True):
    """An intent as the remediator read it, and its state."""

    kind: str
    """A `Kind`; one that another version wrote is kept."""
    state: str
    """`InForce`, `Expired`, or `Overtaken`: by a later signal, or `Ignore` by a worse class."""
    seen_time: datetime
    """When it was first read, by the remediator's clock."""
    seen_through_time: datetime | None = None
    """Latest signal of the GPU at that time, by the node's clock."""
    seen_fault: str = ""
    """Class of the fault that the user could see; "": nothing was known of it."""

    def concerns(self, intent: Intent) -> bool:
        mine = (self.until, self.by, self.reason)
        return mine == (intent.until, intent.by, intent.reason)


def counts(intent: Intent, now: datetime) -> bool:
    """Whether the intent has not expired."""
    return intent.until is None or now < intent.until


def in_words(kind: str, intent: Intent) -> str:
    """Describe an intent in one line. Characters that cannot be printed are replaced."""
    name = NAMES.get(kind, kind.lower())
    if intent.until is not None:
        name += f" until {intent.until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    elif kind == "Ignore":
        name += " without end"
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for letter in f"{name} by {intent.by}: {intent.reason}"
    )
