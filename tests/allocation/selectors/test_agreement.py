"""Each expression says of each device what Kubernetes' own code says, or is not evaluated."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allocation.selectors.answers import Answer
from allocation.selectors.cel import Selector
from allocation.selectors.device import SelectedDevice
from tests.allocation.selectors.examples import DEVICES, DRIVER, EVALUATED, NOT_EVALUATED
from tests.lab.dra_oracle import answers
from tests.lab.examples import examples

Json = dict[str, Any]


def device_of(device: Json) -> SelectedDevice:
    """Return a device of a ResourceSlice as a selector sees it."""
    attributes: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    for name, value in device.get("attributes", {}).items():
        ((kind, given),) = value.items()
        frozen: Any = tuple(given) if kind.endswith("s") else given
        (versions if kind.startswith("version") else attributes)[name] = frozen
    return SelectedDevice(
        driver=DRIVER,
        shared=device.get("allowMultipleAllocations", False),
        attributes=attributes,
        versions=versions,
        capacity={name: each["value"] for name, each in device.get("capacity", {}).items()},
    )


def word(answer: Json) -> str:
    """Return what the oracle says in our words; an API server refuses what does not compile."""
    if "compile" in answer:
        return f"refused: {answer['compile']}"
    return "Fails" if "error" in answer else "Matches" if answer["matches"] else "NoMatch"


def pairs_of_answers(
    oracle: Path, expressions: Iterable[str]
) -> Iterator[tuple[str, str, str, Answer]]:
    """Yield each expression and name of a device, with both answers."""
    pairs = [(expression, name) for expression in expressions for name in DEVICES]
    questions = [
        {"expression": expression, "driver": DRIVER, "device": {"name": name} | DEVICES[name]}
        for expression, name in pairs
    ]
    selectors = {expression: Selector(expression) for expression, _ in pairs}
    for (expression, name), theirs in zip(pairs, answers(oracle, questions), strict=True):
        yield expression, name, word(theirs), selectors[expression].answer(device_of(DEVICES[name]))


def test_ours_is_theirs_wherever_selectors_are_as_people_write_them(dra_oracle_built: Path) -> None:
    wrong = [
        (expression, device, theirs, ours)
        for expression, device, theirs, ours in pairs_of_answers(dra_oracle_built, EVALUATED)
        if ours.says != theirs
    ]

    assert wrong == []


def test_what_is_not_known_is_never_a_guess(dra_oracle_built: Path) -> None:
    found = list(pairs_of_answers(dra_oracle_built, NOT_EVALUATED))

    assert [each for each in found if each[3].says not in {each[2], "NotEvaluated"}] == []
    unknown = {expression for expression, _, _, ours in found if ours.says == "NotEvaluated"}
    assert unknown == set(NOT_EVALUATED), "one that is known now belongs into the other table"
    assert all(ours.why for *_, ours in found if ours.says == "NotEvaluated")


ATOMS = st.sampled_from((*EVALUATED, *NOT_EVALUATED))
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(("&&", "||", "==")), inner).map(
            lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
        ),
        inner.map(lambda each: f"!({each})"),
        st.tuples(inner, inner, inner).map(lambda each: "({}) ? ({}) : ({})".format(*each)),
    ),
    max_leaves=5,
)


@settings(max_examples=examples(60))
@given(st.lists(EXPRESSIONS, min_size=5, max_size=15))
def test_what_is_put_together_says_the_same(dra_oracle_built: Path, found: list[str]) -> None:
    wrong = [
        each
        for each in pairs_of_answers(dra_oracle_built, found)
        if each[3].says not in {each[2], "NotEvaluated"} and not each[2].startswith("refused")
    ]

    assert wrong == []


QUANTITIES = st.from_regex(
    r"[+-]?[0-9]{0,12}(\.[0-9]{0,12})?(|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,2}|E)",
    fullmatch=True,
)
NUMBER = r"(0|[1-9][0-9]{0,3}|0[0-9])"
VERSIONS = st.from_regex(
    rf"v?{NUMBER}(\.{NUMBER}){{0,3}}(-[0-9a-z.]{{0,6}})?(\+[0-9a-z.]{{0,4}})?", fullmatch=True
)


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(QUANTITIES, QUANTITIES), min_size=5, max_size=15),
    st.lists(st.tuples(VERSIONS, VERSIONS), min_size=5, max_size=15),
)
def test_quantities_and_versions_are_read_and_ordered_the_same(
    dra_oracle_built: Path, quantities: list[tuple[str, str]], versions: list[tuple[str, str]]
) -> None:
    of_quantities = [
        f'isQuantity("{one}") && quantity("{one}").{test}'
        for one, other in quantities
        for test in (f'isLessThan(quantity("{other}"))', f'compareTo(quantity("{other}")) == 0')
    ]
    of_versions = [
        f'isSemver("{one}"{how}) && semver("{one}"{how}).{test}'
        for one, other in versions
        for how in ("", ", true")
        for test in (
            f'isLessThan(semver("{other}"{how}))',
            f'compareTo(semver("{other}"{how})) == 0',
        )
    ]
    bare = [f'quantity("{one}") == quantity("{other}")' for one, other in quantities]

    wrong = [
        each
        for each in pairs_of_answers(dra_oracle_built, (*of_quantities, *of_versions, *bare))
        if each[1] == "bare" and each[3].says not in {each[2], "NotEvaluated"}
    ]

    assert wrong == []
