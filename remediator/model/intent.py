"""What users want for a GPU: `spec.hold`, `spec.ignore` and `spec.repairConfirmed` of its incident.

    spec:
      hold: {until: "2026-07-30T18:00:00Z", by: ana, reason: a training run must end first}
      ignore: {by: ana, reason: a test board}
      repairConfirmed: {by: ana, reason: "new board, ticket 4711"}

Users write them; the remediator reads them, and notes in `status.intents` what became of each.
The CRD and an admission policy keep out what could not be read, and a `by` that is not the user
who writes. Pure.
"""

from datetime import UTC, datetime
from typing import Literal, get_args

from kubeapi.types import Entry

Kind = Literal["Hold", "Ignore", "RepairConfirmed"]
"""`Hold`: no new restriction and no disruption, what stands stays. `Ignore`: the fault is not
acted on, our rules come down. `RepairConfirmed`: a user vouches for the repair of a GPU that
recovery alone does not untaint."""
KINDS: tuple[Kind, ...] = get_args(Kind)
FIELDS: dict[Kind, str] = {"Hold": "hold", "Ignore": "ignore", "RepairConfirmed": "repairConfirmed"}
"""Where each is in the incident's spec."""
LASTING: tuple[Kind, ...] = ("Hold", "Ignore")
"""Those about a GPU and not about one repair: a new incident inherits them while they last."""
NAMES: dict[str, str] = {"RepairConfirmed": "repair confirmed"}
"""In a sentence, where the word in lower case will not do."""
BY_LIMIT = 512
REASON_LIMIT = 512
"""Characters that the CRD lets through."""


class Intent(Entry, frozen=True, kw_only=True):
    until: datetime | None = None
    """None: without an end."""
    by: str
    """User name, as the API server knows it."""
    reason: str


class IntentRecord(Intent, frozen=True, kw_only=True):
    """An intent as it was read, and what became of it."""

    kind: str
    """A `Kind`; a word of another version is carried along."""
    state: str
    """`InForce`, `Expired`, or `Overtaken` by a later signal."""
    seen_time: datetime
    """When it was first read, by our clock."""
    seen_through_time: datetime | None = None
    """Youngest XID or signal then, by the node's clock."""

    def concerns(self, intent: Intent) -> bool:
        mine = (self.until, self.by, self.reason)
        return mine == (intent.until, intent.by, intent.reason)


def counts(intent: Intent, now: datetime) -> bool:
    """Whether it has not expired."""
    return intent.until is None or now < intent.until


def in_words(kind: str, intent: Intent) -> str:
    """Describe it in a sentence of one line, whatever was written."""
    name = NAMES.get(kind, kind.lower())
    if intent.until is not None:
        name += f" until {intent.until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    elif kind == "Ignore":
        name += " without end"
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for letter in f"{name} by {intent.by}: {intent.reason}"
    )
