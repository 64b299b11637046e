"""The exit statuses of every command of `draguard`, as docs/cli.md promises them to scripts."""

DONE = 0
PROBLEM = 1
"""It was looked at, and something is wrong, missing, or not done."""
NO_ACCESS = 2
"""Nothing was looked at: a wrong flag, no cluster, no right to read."""
