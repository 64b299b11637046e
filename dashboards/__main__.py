"""`python -m dashboards`: write the dashboards into `dashboards/json/`, and nothing else there."""

import json
from pathlib import Path

from dashboards.boards import rendered

FOLDER = Path(__file__).parent / "json"


def files() -> dict[str, str]:
    """Return what each file holds."""
    return {
        name: json.dumps(board, indent=1, ensure_ascii=False) + "\n"
        for name, board in rendered().items()
    }


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    written = files()
    for stale in FOLDER.glob("*.json"):
        if stale.name not in written:
            stale.unlink()
    for name, text in written.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
