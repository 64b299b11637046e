"""What administrators write: the policy file."""

import re
from random import Random

from remediator.policy.error import PolicyError
from remediator.policy.limits import describe_limits
from remediator.policy.load import read
from remediator.policy.remarks import remarks
from tests.fuzz import hostile
from tests.fuzz.target import Target, demand
from tests.remediator.builders import at
from tests.remediator.policy.policy_examples import EXAMPLE, RECIPES

PARTS = (
    *(text.encode() for text in (EXAMPLE, *RECIPES)),
    b"overrides:\n  - {match: {pool: [a, b*]}, classes: {gpu: {evict: {within: 5m}}}}\n",
    b"maintenance:\n  - {name: w, nodes: a, weekly: {day: sun, start: '01:00', duration: 1h}}\n",
    b"budget: {evict: {node: none, rate: {count: 5}}, taint: {cluster: {share: 5%, atMost: 9}}}\n",
    b"budget: {evict_gpus_per_node: 1, correlation: {nodes: 0, within: 5m, taint: 25%}}\n",
    b"exempt: [{devices: [GPU-1, MIG-2], why: x, until: 2026-01-05T14:00:00Z}]\n",
    b"emergency_stop: {by: ann, why: fire}\n",
    b"defaults: {repeat: {count: 2, within: 9d}, settle: 1s, soak: 1h}\n",
    b"a: &a [*a]\nb: !!binary aGVsbG8=\nc: 2026-01-05\nd: 1:30\ne: .nan\nf: 0o17\n",
    b"%YAML 1.1\n---\na: no\n",
    b"!!int ''",
    b"? [a]\n: b\n",
    b"<<: {a: 1}",
    b'"\\x00\\ud800\\U00110000": 1\n',
)
_REPORTED = re.compile(r"line (\d+): \S.*")


def make(random: Random) -> bytes:
    parts = random.choices(PARTS, k=random.choice((1, 1, 2)))
    raw = hostile.mutated(random, b"".join(parts), 4, PARTS)
    return b"[" * 400 + raw if random.randrange(500) == 0 else raw


def check(raw: bytes) -> None:
    try:
        policy = read(raw)
    except PolicyError as error:
        last = len(raw.decode("utf-8", "replace").splitlines()) + 1
        for problem in error.problems:
            found = _REPORTED.fullmatch(problem)
            demand(found, "a problem without its line", problem)
            demand(found and int(found[1]) <= last, "a line that is not there", problem)
        demand(len(set(error.problems)) == len(error.problems), "reported twice", error.problems)
        return
    demand(all(row.soak > row.settle for row in policy.rows), "untainted before it is judged")
    demand(all(value for _, value, _ in describe_limits(policy.limits)), "a limit", policy.limits)
    list(remarks(policy, at(0)))


TARGETS = (Target("policy-file", 5, make, check),)
