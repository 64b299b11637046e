"""Expressions that choose labels of pods, in Go's language: the one door to RE2.

dcgm-exporter's expressions are RE2's. Python's own module reads some of them otherwise without a
word, such as `[[:alpha:]]`, and others take for ever on a long key.
"""
# pyright: basic
# RE2's binding carries no types.

from collections.abc import Callable, Collection


class PatternError(ValueError):
    """An expression that RE2 does not take."""


def chooser(patterns: Collection[str]) -> Callable[[str], bool]:
    """Return what says whether any of the expressions is found in a key; raises PatternError.

    Without expressions it chooses every key.
    """
    if not patterns:
        return lambda _: True
    # 4 MB that agents without expressions do not spend.
    import re2

    options = re2.Options()
    options.log_errors = False
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re2.compile(pattern, options))
        except (re2.error, UnicodeEncodeError) as error:
            (why, *_) = error.args
            text = why.decode(errors="replace") if isinstance(why, bytes) else str(error)
            raise PatternError(
                f"{pattern!r} is not a regular expression as Go and RE2 have them: {text}"
            ) from error
    return lambda key: any(expression.search(key) for expression in compiled)
