"""README's table, out of docs/replay.md: its first fleet with each delay. Pure."""

from benchmarks.replay.document import BEGIN, table
from benchmarks.replay.run import OURS

TAINTS, NODES = "taints of GPUs right / false / disputed", "of nodes right / false"
LOST = "healthy GPU-hours lost by taints"


def summary(text: str) -> str:
    """Return the table."""
    fleet = text.partition(BEGIN)[2].partition("\nTruth: ")[0].rpartition("\n### ")[2]
    title = ", ".join(fleet.split("\n")[0].split(", ")[:2])
    soon, late = (rows(part) for part in fleet.split("\n\n") if part.startswith("| policy |"))
    header = (
        f"simulated fleet: {title}",
        "faults tainted in time",
        "false taints of GPUs",
        "of nodes",
        f"{LOST}: administrators after 1 h",
        "after 24 h",
        "by node reboots",
    )
    lines = [
        (
            f"**{name}**" if name == OURS else name,
            f"{float(row['recall per GPU']):.1%}",
            row[TAINTS].split(" / ")[1],
            row[NODES].split(" / ")[1],
            row[LOST],
            late[name][LOST],
            row["by reboots"],
        )
        for name, row in soon.items()
    ]
    return table(header, lines)


def rows(markdown: str) -> dict[str, dict[str, str]]:
    """Return the cells of a table by the first cell of their row and the header of their column."""
    header, _, *lines = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in markdown.splitlines()
    )
    return {cells[0]: dict(zip(header, cells, strict=True)) for cells in lines}
