"""The process that evaluates tenants' expressions: `python -m allocation.selectors.worker`.

An expression may take for ever or all memory, and the library leaks. So this process gets no
environment, its memory is limited, and the one that asks kills it when it takes too long, or after
so many evaluations (`evaluator`). What runs out of memory is not evaluated.
"""

import functools
import resource
import sys

import msgspec

from allocation.selectors.answers import not_evaluated
from allocation.selectors.protocol import Question, Reply

KEPT = 512
"""Compiled expressions that are kept."""


def main() -> int:
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # After the limit, so that it holds for the library as well.
    from allocation.selectors.cel import Selector

    compiled = functools.lru_cache(maxsize=KEPT)(Selector)
    decoder, encoder = msgspec.json.Decoder(Question), msgspec.json.Encoder()
    for line in sys.stdin.buffer:
        question = decoder.decode(line)
        try:
            selector = compiled(question.expression)
            reply = Reply(tuple(map(selector.answer, question.devices)))
        except MemoryError:
            why = not_evaluated("it takes more memory than an expression may")
            reply = Reply((why,) * len(question.devices))
        sys.stdout.buffer.write(encoder.encode(reply) + b"\n")
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
