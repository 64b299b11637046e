"""`python -m tools.generated_docs`: bring the tables of all documents up to date."""

import sys

from tools.generated_docs.documents import DOCUMENTS, FOLDER, text_of
from tools.generated_docs.table import MarksError


def main() -> int:
    """Write every document, or none: 2 when one lacks its marks."""
    try:
        texts = {name: text_of(name) for name in DOCUMENTS}
    except MarksError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
