"""The policies that docs/policy.md shows."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[3] / "docs" / "policy.md"
EXAMPLE, *RECIPES = re.findall(
    r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL
)
"""The first uses nearly every key."""
