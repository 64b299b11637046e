"""Hand-written prose of the documents is short enough to be read.

Tables, code blocks, comments and generated parts do not count. Runbooks are read one at a time.
"""

import re
from typing import Final

from tests.docs.fenced import DOCUMENTS

MOST_WORDS: Final = 30_000
_GENERATED = re.compile(
    r"^<!-- ([\w -]+): begin.*?-->$.*?^<!-- \1: end -->$", re.MULTILINE | re.DOTALL
)
_CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^ *\|.*$", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def words_of_prose(document: str) -> int:
    for no_prose in (_GENERATED, _CODE, _TABLE, _COMMENT):
        document = no_prose.sub("", document)
    return len(document.split())


def test_the_prose_of_all_documents_has_30000_words_or_fewer() -> None:
    counted = {path.name: words_of_prose(path.read_text(encoding="utf-8")) for path in DOCUMENTS}

    total = sum(counted.values())
    longest = sorted(counted, key=lambda name: counted[name], reverse=True)[:5]
    assert total <= MOST_WORDS, (
        f"the documents have {total:,} words of prose: say each fact once and link to it, and cut "
        "what a table or a newer figure says. The longest are "
        + ", ".join(f"{name} ({counted[name]:,})" for name in longest)
    )


def test_tables_code_comments_and_generated_parts_are_no_prose() -> None:
    document = """\
Five words in a paragraph.

```sh
make test
```

  ```
  an indented block
  ```

| a | table |
|---|---|

<!-- some-name: begin, written by `make docs` -->
Text that a program wrote.
<!-- some-name: end -->

<!-- a remark -->
Then three words.
"""

    assert words_of_prose(document) == 5 + 3
