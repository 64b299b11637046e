"""The patch files: each changes one line of what is there now, and names tests that there are."""

import ast
from pathlib import Path

import pytest

from tests.mutants.copies import ROOT, CopyError, check_patch
from tests.mutants.patches import FOLDER, Patch, PatchError, parsed, patches

PATCHES = patches()
each = pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
SOUND = """Promise: a cap of two lets two pass.
Red: tests/a/test_a.py tests/a/test_b.py::test_c
--- a/some/module.py
+++ b/some/module.py
@@ -1,3 +1,3 @@
 first
-second
+changed
 third
"""


@each
def test_it_fits_to_the_tree_as_it_is(patch: Patch) -> None:
    check_patch(patch.file, ROOT)


@each
def test_it_says_its_promise_in_one_sentence(patch: Patch) -> None:
    assert patch.promise[0].isupper()
    assert patch.promise.endswith(".")
    assert "\n" not in patch.promise


@each
def test_what_it_changes_is_more_than_form(patch: Patch) -> None:
    assert patch.removed.split() != patch.added.split()


@each
def test_the_tests_that_it_names_are_there(patch: Patch) -> None:
    for path in patch.red:
        file, *names = path.split("::")
        assert file.startswith("tests/")
        body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        for name in names:
            body = _body(body, name.partition("[")[0])


def _body(among: list[ast.stmt], name: str) -> list[ast.stmt]:
    for entry in among:
        if isinstance(entry, ast.ClassDef | ast.FunctionDef) and entry.name == name:
            return entry.body
    raise AssertionError(f"no test is called {name}")


def test_no_two_make_the_same_mutant() -> None:
    made = [(patch.path, patch.removed, patch.added) for patch in PATCHES]

    assert len(made) == len(set(made))


def test_there_are_enough_of_them_for_every_part() -> None:
    parts = [patch.path.split("/")[0] for patch in PATCHES]

    assert len(parts) >= 44
    assert parts.count("remediator") >= 24
    assert parts.count("exporter") >= 14
    assert {"draguard", "kubeapi", "serving", "alerts"} <= set(parts)


def test_every_file_of_the_folder_that_is_called_a_patch_is_read() -> None:
    assert {patch.file for patch in PATCHES} == set(FOLDER.glob("*.patch"))


class TestParsed:
    def test_a_sound_one(self) -> None:
        patch = parsed(SOUND, Path("cap-of-two.patch"))

        assert patch.name == "cap-of-two"
        assert patch.promise == "a cap of two lets two pass."
        assert patch.red == ("tests/a/test_a.py", "tests/a/test_b.py::test_c")
        assert (patch.path, patch.removed, patch.added) == ("some/module.py", "second", "changed")

    @pytest.mark.parametrize(
        ("old", "new", "error"),
        [
            ("Promise: a cap of two lets two pass.\n", "", "`Promise: ...`"),
            ("Promise: a cap of two lets two pass.", "Promise: ", "`Promise: ...`"),
            ("Red: tests/a/test_a.py tests/a/test_b.py::test_c\n", "", "`Red: ...`"),
            ("+changed\n", "+changed\n+and more\n", "more or less than one line"),
            ("+changed\n", "", "more or less than one line"),
            ("-second\n", "", "more or less than one line"),
            ("+++ b/some/module.py", "+++ b/some/other.py", "changes no file"),
            ("--- a/some/module.py\n", "", "changes no file"),
        ],
    )
    def test_any_other_is_refused_by_its_name(self, old: str, new: str, error: str) -> None:
        assert old in SOUND

        with pytest.raises(PatchError, match="cap-of-two") as raised:
            parsed(SOUND.replace(old, new), Path("cap-of-two.patch"))
        assert error in str(raised.value)


def test_a_patch_of_a_line_that_is_not_there_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "module.py").write_text("first\nsecond\nthird\n", encoding="utf-8")
    file = tmp_path / "it.patch"
    file.write_text(SOUND, encoding="utf-8")
    check_patch(file, tmp_path)

    (tmp_path / "some" / "module.py").write_text("first\nother\nthird\n", encoding="utf-8")
    with pytest.raises(CopyError, match="apply --check"):
        check_patch(file, tmp_path)
