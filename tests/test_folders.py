"""Which folder imports which: as the table in pyproject.toml allows, and without cycles."""

import ast
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "tool"
]["draguard"]["imports"]
PACKAGES = sorted({folder.split(".")[0] for folder in TABLE})


def modules() -> dict[str, Path]:
    """Return every module of the product by its dotted name."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }


MODULES = modules()


def folder(module: str) -> str:
    return ".".join(MODULES[module].parent.relative_to(ROOT).parts)


def imported(file: Path) -> Iterator[str]:
    """Yield the modules of ours that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in whole]
        yield from (name for name in names if name in MODULES)


def graph() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {folder(module): set() for module in MODULES}
    for module, file in MODULES.items():
        if not module.endswith("__main__"):
            here = folder(module)
            found[here] |= {folder(name) for name in imported(file)} - {here}
    return found


def test_each_folder_imports_what_the_table_allows_and_the_table_allows_nothing_else() -> None:
    assert {folder: sorted(names) for folder, names in graph().items()} == TABLE


def test_no_folder_is_imported_by_what_it_imports() -> None:
    list(TopologicalSorter(graph()).static_order())


def test_modules_are_found() -> None:
    assert "remediator.plan.node_decision" in MODULES
    assert "remediator.model.taint_rule" in set(imported(MODULES["remediator.plan.brakes"]))
