"""Which dashboards there are, and how one is linked to: uid, title, variables, paths.

Links between dashboards and the `dashboard_url` of an alert are made from these declarations. So no
link can name a dashboard that does not exist or a variable that it lacks. Needs no library, so that
alerting rules can import it where no dashboard is drawn. Pure.
"""

from collections.abc import Mapping

import msgspec


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """One dashboard, as others know it."""

    uid: str
    """Stable: links and bookmarks hold it."""
    title: str
    says: str
    """What it shows, as its description."""
    variables: tuple[str, ...]
    """In the order in which each narrows the next; the data source is the first of every one."""
    needs: tuple[str, ...] = ()
    """Those that name its subject; a link without them would show something else."""

    @property
    def file(self) -> str:
        """The name of its file in `dashboards/json/`."""
        return f"{self.uid}.json"


class LinkError(ValueError):
    """A link that its target cannot follow: an unknown variable, or a needed one left out."""


FLEET = Board(
    uid="draguard-fleet",
    title="Draguard / Fleet",
    says="Healthy, sick and unknown GPUs, open incidents, tainted and free devices.",
    variables=("datasource", "cluster"),
)
NODE = Board(
    uid="draguard-node",
    title="Draguard / Node",
    says="State of the GPUs of one node, and what its exporter can read.",
    variables=("datasource", "cluster", "node"),
    needs=("node",),
)
DEVICE = Board(
    uid="draguard-device",
    title="Draguard / Device",
    says="State, history and holders of one GPU and its MIG slices.",
    variables=("datasource", "cluster", "node", "uuid"),
    needs=("uuid",),
)
CLAIM = Board(
    uid="draguard-claim",
    title="Draguard / Claim",
    says="Devices allocated to a claim, their usage and their health. Pending claims.",
    variables=("datasource", "cluster", "namespace", "claim"),
    needs=("namespace",),
)
REMEDIATION = Board(
    uid="draguard-remediation",
    title="Draguard / Remediation",
    says="Actions taken, planned and deferred, with reasons. Health of the remediator.",
    variables=("datasource", "cluster", "node", "incident"),
)

BOARDS: tuple[Board, ...] = (FLEET, NODE, DEVICE, CLAIM, REMEDIATION)
"""From the whole to the part."""


def path(board: Board, queries: Mapping[str, str]) -> str:
    """Return the path of a dashboard with its variables set.

    `queries` maps a variable to what stands after `var-<name>=`, already fit for a URL.

    Raises:
        LinkError: the dashboard has no such variable, or needs one that is not given.

    """
    _check(board, queries)
    named = "&".join(f"var-{name}={value}" for name, value in queries.items())
    return f"/d/{board.uid}?{named}" if named else f"/d/{board.uid}"


def alert_path(board: Board, labels: Mapping[str, str]) -> str:
    """Return the path for an alert's `dashboard_url`, as a template of Prometheus.

    `labels` maps a variable to the alert's label that has its value, for example
    `{"cluster": "cluster", "node": "node", "uuid": "UUID"}`. A label that an alert lacks, as
    `cluster` where Prometheus adds none, leaves its variable at its default.

    Raises:
        LinkError: as `path`.

    """
    _check(board, labels)
    needed = [
        f"var-{name}={{{{ $labels.{label} | urlquery }}}}"
        for name, label in labels.items()
        if name in board.needs
    ]
    others = {name: label for name, label in labels.items() if name not in board.needs}
    begun = f"?{'&'.join(needed)}" if needed else ""
    return f"/d/{board.uid}{begun}{_where_there(others, begun=bool(needed))}"


def _check(board: Board, given: Mapping[str, str]) -> None:
    if unknown := sorted(set(given) - set(board.variables)):
        raise LinkError(f"{board.uid} has no variable {unknown}; it has {list(board.variables)}")
    if missing := sorted(set(board.needs) - set(given)):
        raise LinkError(f"{board.uid} needs a value for {missing}")


def _where_there(given: Mapping[str, str], *, begun: bool) -> str:
    """Return a parameter for each label that an alert has; `begun`: the URL already has one."""
    made, before = "", ""
    for name, label in given.items():
        mark = "&" if begun else f"{{{{ if or{before} }}}}&{{{{ else }}}}?{{{{ end }}}}"
        first = mark if begun or before else "?"
        value = f"{first}var-{name}={{{{ . | urlquery }}}}"
        made += f"{{{{ with $labels.{label} }}}}{value}{{{{ end }}}}"
        before += f" $labels.{label}"
    return made
