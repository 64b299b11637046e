"""With which status every command of `draguard` ends; docs/cli.md says it to users."""

DONE = 0
"""What was asked is done, or told."""
WRONG = 1
"""It was looked at, and something is wrong, missing, or left undone."""
UNASKED = 2
"""Nothing could be asked: a wrong flag, no cluster, no right to look."""
