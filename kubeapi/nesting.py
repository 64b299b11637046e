"""How deeply nested the objects of an API server may be.

A user who may write a ResourceClaim chooses how deep the parameters in it are nested: the server
takes 10 KiB of brackets, five thousand levels. A JSON reader counts levels against the
interpreter's limit for recursion, which is a thousand, also in parts that it only steps over.
"""

import sys

DEEPEST = 12_000
"""Levels; an API server refuses more than ten thousand (the limit of Go's encoding/json). A level
takes some 100 bytes of the thread's stack."""


def allow() -> None:
    """Let this process read whatever an API server has stored."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEPEST))
