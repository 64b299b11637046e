"""Every mistake that a policy file can have, reported with its line, its place and a remedy."""

from datetime import timedelta

import pytest

from remediator.policy.error import PolicyError
from remediator.policy.load import read


def window(when: str) -> str:
    return f"maintenance: [{{name: a, nodes: a, {when}}}]"


def weekly(times: str) -> str:
    return window(f"weekly: {{{times}}}")


SUNDAYS = "{name: a, nodes: a, weekly: {day: sun, start: '01:00', duration: 1h}}"
MISTAKES = [
    (
        "classes:\n  gpu:\n    mode: enforced",
        3,
        "classes.gpu.mode: 'enforced' is not a mode; one of off,",
    ),
    ("classes:\n  gpu: {ceiling: NoSched}", 2, "one of observe, None, NoSchedule, NoExecute"),
    ("classes:\n  cpu: {}", 2, "classes.cpu: no such key; did you mean gpu?"),
    ("clases: {}", 1, "clases: no such key; did you mean classes?"),
    ("classes: [gpu]", 1, "classes: a list is not a mapping"),
    ("\n\n[1, 2]", 3, "a list is not what belongs here; write a mapping with any of defaults"),
    ("defaults: {soak: 10}", 1, "defaults.soak: 10 is not a duration such as 500ms"),
    ("defaults:\n  soak: ten minutes", 2, "write 500ms, 3s, 10m, 24h or 30d"),
    ("defaults: {soak: 91d}", 1, "91d is longer than 90 days"),
    ("defaults: {soak: 2s}", 1, "soak (2s) must be longer than settle (3s)"),
    ("defaults: {settle: 20m}", 1, "defaults.settle: soak (10m) must be longer than settle (20m)"),
    ("defaults: {ceiling: NoExecute}", 1, "is set per class"),
    ("defaults: {repeat: {count: 0}}", 1, "0 is not a number from 1 to 1000"),
    ("defaults: {repeat: {within: 366d}}", 1, "longer than 365 days"),
    ("classes:\n  pending:\n    ceiling: NoExecute", 3, "one of observe, None, NoSchedule"),
    ("classes: {gpu: {sticky: yes}}", 1, "'yes' is not true or false"),
    (
        "classes:\n  gpu:\n    evict: {then: NoSchedule}",
        3,
        "gpu.evict.then: 'NoSchedule' is not a step; one of NoExecute, wait",
    ),
    (
        "classes:\n  gpu:\n    evict: {within: soon}",
        3,
        "gpu.evict.within: 'soon' is not a duration",
    ),
    ("classes:\n  gpu:\n    evict:\n      for: 10m", 4, "for: no such key. "),
    ("defaults: {evict: {extendedResources: evict}}", 1, "is not an action; one of wait, delete"),
    ("a: 1\nb: 2\na: 3", 3, "a is written twice, first on line 1"),
    ("classes:\n  gpu: {}\n  gpu: {}", 3, "classes.gpu is written twice, first on line 2"),
    ("a: &x [1]\nb: *x", 2, "aliases are not read"),
    ("a: !!python/name:os.system x", 1, "remove it"),
    ("a: 1\n---\nb: 2", 2, "a single document"),
    ("a:\n  - {", 2, "not YAML"),
    ("- " * 20 + "a", 1, "nested deeper than 16 levels"),
    ("? [a]\n: 1", 1, "a key is a word"),
    ("a: 1\nb: \0", 2, "the character U+0000 is not allowed"),
    ('a: 1\nb: "\\UFFFFFFFF"', 2, "not YAML"),
    (f"a:\n  b: {'9' * 5000}", 2, "a number of 5000 digits is too long"),
    ('a: 1\n"\\ud800": 1', 2, "'\\ud800' has half a character; write it whole"),
    ('exempt: [{nodes: "\\udfff", why: x}]', 1, "has half a character"),
    ('"": 1', 1, "line 1: no such key"),
    ("overrides:\n  - match: {}\n    defaults: {mode: off}", 2, "names nothing; give any of"),
    ("overrides:\n  - defaults: {mode: off}", 2, "overrides[0].match: names nothing"),
    ("overrides:\n  - {match: {node: }, defaults: {mode: off}}", 2, "match: names nothing"),
    ("overrides:\n  - {match: {node: a}, defaults: {soak: ''}}", 2, "changes nothing"),
    ("overrides:\n  - {match: {node: a}, classes: {gpu: {repeat: {}}}}", 2, "changes nothing"),
    ("overrides: [~]", 1, "overrides[0]: nothing is not what belongs here; write a mapping"),
    ("overrides:\n  - match: {node: a}", 2, "overrides[0]: changes nothing"),
    ("overrides:\n  - {match: {label: a}, defaults: {mode: off}}", 2, "match.label: no such key"),
    ("overrides: [{match: {node: []}, defaults: {mode: off}}]", 1, "an empty name matches nothing"),
    ("overrides: [{match: {node: [1]}, defaults: {mode: off}}]", 1, "node[0]: 1 is not a name"),
    (
        "maintenance:\n  - {nodes: a, weekly: {day: sun, start: '01:00', duration: 1h}}",
        2,
        "name: is missing",
    ),
    (
        "maintenance: [{name: a, from: 2026-01-01T00:00:00Z, until: 2026-01-02T00:00:00Z}]",
        1,
        "exactly one of nodes, pools",
    ),
    ("maintenance: [{name: a, nodes: a}]", 1, "give from and until, or weekly"),
    (
        window("until: 2026-01-02T00:00:00Z, weekly: {day: sat, start: '01:00', duration: 1h}"),
        1,
        "either from and until, or weekly",
    ),
    (
        window("from: 2026-01-02T00:00:00Z, until: 2026-01-02T00:00:00Z"),
        1,
        "until: 2026-01-02T00:00:00Z is not after from",
    ),
    (
        window("from: 2026-01-02, until: 2026-01-03T00:00:00Z"),
        1,
        "'2026-01-02' is not a moment with its zone",
    ),
    (weekly("day: sat, start: '25:00', duration: 1h"), 1, "'25:00' is not a time of day"),
    (weekly("day: saturday, start: '01:00', duration: 1h"), 1, "'saturday' is not a day; one of"),
    (weekly("day: sat, start: '01:00', duration: 7d"), 1, "7d is not between 0s and 7d"),
    (
        weekly("day: sat, start: '01:00', duration: 1h, timezone: Mars/Base"),
        1,
        "'Mars/Base' is not a zone",
    ),
    (weekly("day: sat, start: '01:00'"), 1, "weekly.duration: is missing"),
    ("maintenance:\n" + f"  - {SUNDAYS}\n" * 2, 3, "'a' is another window's name"),
    ("exempt:\n  - devices: GPU-1", 2, "why: is missing; write a text"),
    ("exempt: [{devices: GPU-1, why: }]", 1, "why: is missing; write a text"),
    (window("from: '', until: 2026-01-02T00:00:00Z"), 1, "from: '' is not a moment"),
    ("exempt: [{devices: GPU-1, nodes: a, why: x}]", 1, "exactly one of devices, nodes, pools"),
    ("exempt: [{devices: '0', why: x}]", 1, "'0' is not a UUID"),
    ("emergency_stop: {by: ann}", 1, "emergency_stop.why: is missing"),
    ("emergency_stop: 1", 1, "1 is not `by` and `why`, or true"),
    ("budget:\n  evict:\n    nod: 2", 3, "budget.evict.nod: no such key; did you mean node?"),
    ("budget: {evict: {node: -1}}", 1, "budget.evict.node: -1 is not a number"),
    ("budget: 3", 1, "budget: 3 is not a mapping with any of evict, taint, correlation"),
    (f"budget: {{evict: {{node: {'9' * 400}}}}}", 1, "9... is not a number of GPUs"),
    ("budget: {taint: {node: {share: 5%, atlast: 1}}}", 1, "did you mean atLeast?"),
    ("defaults:\n  settle: 1s\n  soak: [1m]", 3, "defaults.soak: a list is not a duration"),
    (f"exempt: [{{nodes: {'a' * 254}, why: x}}]", 1, "nodes: a name is longer than 253"),
    ("exempt: [{nodes: [a, ''], why: x}]", 1, "nodes[1]: an empty name matches nothing"),
    ("budget: {correlation: {within: ''}}", 1, "budget.correlation.within: "),
]


@pytest.mark.parametrize(("text", "line", "why"), MISTAKES)
def test_a_mistake_is_reported_with_its_line_and_what_to_write(
    text: str, line: int, why: str
) -> None:
    with pytest.raises(PolicyError) as refused:
        read(text)

    (problem,) = refused.value.problems
    assert problem.startswith(f"line {line}: ")
    assert why in problem


ALL_KINDS = """\
classes:
  gpu: {mode: x}
  cpu: {}
  lost:
    soak: soon
maintenance:
  - {name: a, nodes: a, pools: b, from: 2026-01-02, until: 2026-01-03T00:00:00Z}
exempt:
  - devices:
      - GPU-1
      - "0"
      - 5
    why: x
budget:
  evict: {node: -1, rate: {count: many}}
  taint:
    rate: {within: 1m}
foo: 1
"""


def test_all_mistakes_of_all_kinds_are_reported_at_once_each_with_its_own_line() -> None:
    with pytest.raises(PolicyError) as refused:
        read(ALL_KINDS)

    places = [problem.split(": ")[:2] for problem in refused.value.problems]
    assert places == [
        ["line 2", "classes.gpu.mode"],
        ["line 3", "classes.cpu"],
        ["line 5", "classes.lost.soak"],
        ["line 7", "maintenance[0]"],
        ["line 7", "maintenance[0].from"],
        ["line 11", "exempt[0].devices[1]"],
        ["line 12", "exempt[0].devices[2]"],
        ["line 15", "budget.evict.node"],
        ["line 15", "budget.evict.rate.count"],
        ["line 17", "budget.taint.rate.count"],
        ["line 18", "foo"],
    ]


def test_times_that_contradict_each_other_are_reported_beside_what_is_wrong_elsewhere() -> None:
    with pytest.raises(PolicyError) as refused:
        read("defaults: {soak: 2s}\nexempt:\n  - {devices: x, why: y}")

    assert [problem.partition(":")[0] for problem in refused.value.problems] == ["line 1", "line 3"]


def test_a_settle_and_a_soak_that_can_meet_at_one_place_are_held_against_each_other() -> None:
    apart = """
    overrides:
      - match: {node: a}
        classes: {gpu: {settle: 5m, soak: 20m}}
      - match: {pool: p}
        classes: {gpu: {soak: %s}}
    """
    assert read(apart % "6m")
    with pytest.raises(PolicyError, match=r"line 6: overrides\[1\].*\(5m\) must be longer"):
        read(apart % "5m")


def test_an_override_that_brings_both_times_is_not_held_against_those_it_replaces() -> None:
    policy = read("overrides: [{match: {node: a}, defaults: {settle: 15m, soak: 1h}}]")

    assert policy.overrides[0].changes["gpu"].settle == timedelta(minutes=15)
