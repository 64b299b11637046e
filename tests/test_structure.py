"""The rules of the house that a machine can check."""

import ast
import graphlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    *("allocation", "exporter", "remediator", "kubeapi", "serving", "draguard", "simulator"),
    "benchmarks",
    *("dashboards", "alerts", "deploy", "tools"),
)
GRAB_BAGS = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}
SHRED = 8
"""Lines of a function that is hardly worth a jump from its only caller."""
SHREDS = 205
MOST_METHODS = 25


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_imports_point_one_way_and_the_core_stays_pure() -> None:
    # A process of its own: the program silences every logger that exists when it starts.
    program = Path(sys.executable).with_name("lint-imports")
    # Its cache is in the checkout, where another run may write it at the same time.
    command = [program, "--config", "pyproject.toml", "--no-cache"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_tests_are_no_packages() -> None:
    """An `__init__.py` in tests/exporter would hide the real package of that name."""
    assert [path for path in modules("tests") if path.name == "__init__.py"] == []


@pytest.mark.parametrize("path", modules(*PACKAGES, "tests"), ids=str)
def test_a_module_says_what_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)

    assert path.stem not in GRAB_BAGS
    assert not text.strip() or path.name == "conftest.py" or ast.get_docstring(tree)


def test_few_small_private_functions_have_one_caller() -> None:
    """Each sends its reader away and back for a few lines: it belongs into its caller, mostly.

    One that is named and not called there is the row of a table.
    """
    found: list[str] = []
    for path in modules(*PACKAGES):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        uses = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        uses += Counter(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
        calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        called = {call.id for call in calls if isinstance(call, ast.Name)}
        called |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        found += [
            f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
            for function in functions(tree)
            if re.match("_(?!_)", function.name)
            if uses[function.name] == 1 and function.name in called
            if (function.end_lineno or 0) - function.lineno < SHRED
        ]

    assert len(found) < SHREDS, "\n".join(found)


def test_no_class_has_more_methods_than_a_reader_keeps_in_mind() -> None:
    """Beyond 25 methods some share attributes that the others never touch: a class of their own."""
    counts = {
        f"{path.relative_to(ROOT)} {node.name}": sum(
            isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) for member in node.body
        )
        for path in modules(*PACKAGES)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }

    assert {name: count for name, count in counts.items() if count > MOST_METHODS} == {}


def test_the_simulators_c_includes_without_cycles() -> None:
    """A source and its header are one unit; who calls a unit includes its header."""
    graph: dict[str, set[str]] = {}
    for path in sorted((ROOT / "simulator").glob("*/*.[ch]")):
        assert path.stem not in GRAB_BAGS
        unit = f"{path.parent.name}/{path.stem}"
        named = re.findall(r'^#include "(.+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
        included = [(path.parent / name).resolve() for name in named]
        units = {f"{file.parent.name}/{file.stem}" for file in included if file.exists()}
        graph.setdefault(unit, set()).update(units - {unit})

    order = list(graphlib.TopologicalSorter(graph).static_order())

    assert {"ini/ini", "nvml/gate", "dcgm/gate"} <= set(order)


@pytest.mark.parametrize(
    "entry", ["exporter.agent.process", "exporter.sensor.process", "exporter.sensor.nvml.child"]
)
def test_the_node_agent_loads_nothing_of_the_controller(entry: str) -> None:
    script = (
        f"import sys, {entry}; "
        "print([n for n in ('kubernetes', 'yaml', 'apscheduler', 'pydantic', 'rich', 'remediator') "
        "if n in sys.modules])"
    )
    assert answer_of(script) == "[]"


@pytest.mark.parametrize("command", ["incidents", "status", "plan", "explain", "doctor", "policy"])
def test_a_command_loads_what_reads_a_policy_only_when_there_is_one_to_read(command: str) -> None:
    script = f"import sys, draguard.commands.{command}; print('pydantic' in sys.modules)"

    assert answer_of(script) == "False"


def answer_of(script: str) -> str:
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return ran.stdout.strip()
