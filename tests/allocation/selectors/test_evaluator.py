"""Expressions are evaluated by a process that may hang, take all memory or die: others go on."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from allocation.selectors import evaluator as module
from allocation.selectors import quantity
from allocation.selectors.answers import MATCHES, NO_MATCH
from allocation.selectors.cel import Selector
from allocation.selectors.device import SelectedDevice, names_read, with_names
from allocation.selectors.evaluator import Evaluator, EvaluatorError
from tests.allocation.selectors.examples import DEVICES, EVALUATED, NOT_EVALUATED
from tests.allocation.selectors.test_agreement import device_of

GPU = SelectedDevice(driver="gpu.nvidia.com", attributes={"type": "gpu"})
SLICE = SelectedDevice(driver="gpu.nvidia.com", attributes={"type": "mig"})
IS_GPU = 'device.attributes["gpu.nvidia.com"].type == "gpu"'
ALL_MEMORY = f'"{"a" * 40}"' + f'.replace("a", "{"a" * 40}")' * 6 + ".size() > 1"
"""A string of 160 gigabytes."""


@pytest.fixture
def evaluator() -> Iterator[Evaluator]:
    with Evaluator() as made:
        yield made


def test_each_device_has_its_answer(evaluator: Evaluator) -> None:
    assert evaluator.answers(IS_GPU, [GPU, SLICE, GPU]) == (MATCHES, NO_MATCH, MATCHES)


def test_no_more_is_kept_of_an_error_than_is_read(evaluator: Evaluator) -> None:
    """It quotes the key that is looked up."""
    looks_up = f'device.attributes["gpu.nvidia.com"]["{"a" * 10_000}" + "b"] == "x"'

    (answer,) = evaluator.answers(looks_up, [GPU])

    assert answer.says == "Fails"
    assert 0 < len(answer.why) <= 200


def test_no_device_is_evaluated_twice(evaluator: Evaluator) -> None:
    assert evaluator.answers(IS_GPU, [GPU]) == (MATCHES,)
    evaluator.close()

    assert evaluator.answers(IS_GPU, [GPU, GPU]) == (MATCHES, MATCHES)
    assert evaluator.starts == 1


def test_devices_that_differ_in_what_is_not_read_need_one_evaluation(
    evaluator: Evaluator,
) -> None:
    first, second = (
        SelectedDevice(driver="gpu.nvidia.com", attributes={"type": "gpu", "uuid": f"GPU-{number}"})
        for number in range(2)
    )
    evaluator.answers(IS_GPU, [first])
    evaluator.close()

    assert evaluator.answers(IS_GPU, [second]) == (MATCHES,)
    assert evaluator.starts == 1


@pytest.mark.parametrize("expression", [*EVALUATED, *NOT_EVALUATED])
def test_what_an_expression_does_not_read_changes_no_answer(expression: str) -> None:
    selector, names = Selector(expression), names_read(expression)
    for device in map(device_of, DEVICES.values()):
        whole, cut = selector.answer(device), selector.answer(with_names(device, names))

        assert whole.says in {cut.says, "NotEvaluated"}


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["a"].all(name, name != "b")',
        'device.attributes["a"].size() == 1',
        'device.attributes["a"] == {}',
        'device.attributes["a"]["ty" + "pe"] == "gpu"',
        'device.attributes["a"][device.driver] == "gpu"',
        '"a" in device.attributes',
        'cel.bind(x, device.attributes, x["a"].type == "gpu")',
        'device.attributes["a"] == device.attributes["b"]',
        'cel.bind(x, device.attributes["a"], x == x)',
        'device.attributes["a"].which in device.attributes["a"]',
        '"ty" + "pe" in device.attributes["a"]',
        'cel.bind(x, "ty" + "pe", x in device.attributes[device.attributes["a"].b])',
    ],
)
def test_an_expression_that_may_read_any_attribute_is_given_all(expression: str) -> None:
    assert names_read(expression) is None


def test_a_literal_that_a_domain_may_have_is_read_alone() -> None:
    expression = 'has(device.driver) && "type" in device.attributes["a"]'

    assert names_read(expression) == {"has", "device", "driver", "type", "in", "attributes", "a"}


def test_an_expression_that_takes_all_memory_is_not_evaluated_and_others_are(
    evaluator: Evaluator,
) -> None:
    (answer,) = evaluator.answers(ALL_MEMORY, [GPU])

    assert answer.says == "NotEvaluated"
    assert evaluator.answers(IS_GPU, [GPU]) == (MATCHES,)


@pytest.mark.parametrize(
    "expression",
    [
        'quantity("1" + device.driver).isInteger()',
        'device.attributes["gpu.nvidia.com"].type.matches("(divide by zero")',
    ],
)
def test_only_an_error_of_kubernetes_is_one(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the want of memory in a function of ours, nor an error that quotes another one."""

    def parse(_: str) -> None:
        raise MemoryError

    monkeypatch.setattr(quantity, "parse", parse)

    assert Selector(expression).answer(GPU).says == "NotEvaluated"


def test_an_expression_that_takes_too_long_is_given_up_for_good(
    evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator.answers("true", [GPU])
    pid = evaluator.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(evaluator, "patience", 0.2)

    (answer,) = evaluator.answers(IS_GPU, [GPU])
    begun = time.monotonic()
    (again,) = evaluator.answers(IS_GPU, [SLICE])

    assert (answer.says, answer.why) == ("NotEvaluated", "it takes longer than 0.2 s")
    assert again == answer
    assert time.monotonic() - begun < 0.1, "it was not tried again"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert evaluator.answers("!false", [GPU]) == (MATCHES,)


def test_a_process_that_is_killed_costs_its_expression_only(evaluator: Evaluator) -> None:
    evaluator.answers("true", [GPU])
    assert evaluator.pid is not None
    os.kill(evaluator.pid, signal.SIGKILL)

    (answer,) = evaluator.answers(IS_GPU, [GPU])
    assert answer.why == "it ended the process that evaluates it"
    assert evaluator.answers("!false", [GPU]) == (MATCHES,)


def test_it_is_started_anew_after_so_many_evaluations() -> None:
    with Evaluator(recycled=3) as evaluator:
        for number in range(8):
            evaluator.answers(f"{number} == 3", [GPU])

        assert evaluator.starts == 2


def test_a_process_that_cannot_start_is_no_fault_of_an_expression() -> None:
    with Evaluator(memory=2**20) as evaluator, pytest.raises(EvaluatorError, match="not start"):
        evaluator.answers(IS_GPU, [GPU])


def test_many_devices_are_evaluated_in_parts(evaluator: Evaluator) -> None:
    many = [
        SelectedDevice(driver="gpu.nvidia.com", attributes={"type": "gpu", "minor": number})
        for number in range(2 * module.BATCH + 1)
    ]
    answers = evaluator.answers('device.attributes["gpu.nvidia.com"].minor % 2 == 0', many)

    assert answers == tuple(MATCHES if number % 2 == 0 else NO_MATCH for number in range(len(many)))


def test_it_ends_with_its_context() -> None:
    with Evaluator() as evaluator:
        evaluator.answers("true", [GPU])
        pid = evaluator.pid
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
