"""What goes into an image: the list of Debian's files, and what is left out of Python packages."""

import ast
import re
import sys
from pathlib import Path

import pytest

from deploy.image import contents
from deploy.image.debian_files import matches
from deploy.locks import FOLDER, needed, normal, pinned

ROOT = Path(__file__).parents[2]
LIST = (ROOT / "deploy" / "image" / "debian.txt").read_text("utf-8")
TEXT = """\
# A comment.
[libc6]
usr/lib/{linux}/libc.so.6

[python3.11-minimal] controller
# Of the next line.
usr/lib/python3.11/
- usr/lib/python3.11/test/
"""


def test_a_package_has_the_lines_behind_its_name() -> None:
    libc, python = contents.debian(TEXT, "controller", "aarch64")

    assert libc.files == ("usr/lib/aarch64-linux-gnu/libc.so.6",)
    assert python.files == ("usr/lib/python3.11/",)
    assert python.left_out == ("usr/lib/python3.11/test/",)


def test_a_package_that_is_for_one_image_is_not_in_the_other() -> None:
    assert [found.name for found in contents.debian(TEXT, "exporter", "x86_64")] == ["libc6"]


def test_a_pattern_is_a_file_a_folder_or_as_in_a_shell() -> None:
    assert matches("usr/lib/libz.so.1.2.13", "usr/lib/libz.so.1*")
    assert matches("usr/lib/python3.11/json/decoder.py", "usr/lib/python3.11/")
    assert not matches("usr/lib/python3.11/json.py", "usr/lib/python3.11/json")
    assert not matches("usr/lib/python3.11", "usr/lib/python3.11/")
    assert not matches("opt/usr/lib/python3.11/json.py", "usr/lib/python3.11/")


def test_the_list_has_each_package_once_and_in_images_that_exist() -> None:
    heads = re.findall(r"^\[(.+)\](.*)$", LIST, re.MULTILINE)

    assert len(heads) == len({name for name, _ in heads})
    assert {word for _, images in heads for word in images.split()} <= {*contents.IMAGES}


@pytest.mark.parametrize(
    "name",
    [
        *("yaml/tests/test_all.py", "kubernetes/config/kube_config_test.py", "yaml/_yaml.pyi"),
        *("rich-15.dist-info/RECORD", "kubernetes/aio/client/api.py", "simulator/board.py"),
    ],
)
def test_tests_types_and_what_nothing_loads_are_in_no_image(name: str) -> None:
    assert not contents.is_useful("controller", name)


@pytest.mark.parametrize(
    "name",
    [
        *("rich/table.py", "exporter/data/xid_catalog.csv", "kubernetes/client/aiohttp.py"),
        *("rich-15.dist-info/METADATA", "rich-15.dist-info/licenses/LICENSE", "testing.py"),
    ],
)
def test_code_data_and_licences_are_in_an_image(name: str) -> None:
    assert contents.is_useful("controller", name)


def test_a_node_has_no_code_that_taints_or_plays() -> None:
    assert not contents.is_useful("exporter", "remediator/plan/gpu.py")
    assert not contents.is_useful("exporter", "simulator/board.py")
    assert contents.is_useful("controller", "remediator/plan/gpu.py")


def test_what_only_a_left_out_folder_needs_is_not_installed() -> None:
    names = {*pinned((FOLDER / "controller.txt").read_text("utf-8"))}
    unused = {normal(name) for names in contents.UNUSED_NEEDS.values() for name in names}

    assert not unused & names
    assert "kubernetes" in needed(("draguard[remediator]",)) & names


def test_the_build_needs_nothing_but_the_standard_library() -> None:
    """It runs before anything is installed."""
    paths = (ROOT / "deploy" / "image").glob("*.py")
    trees = [ast.parse(path.read_text("utf-8")) for path in paths]
    imported = {
        name.partition(".")[0]
        for tree in trees
        for node in ast.walk(tree)
        for name in (
            [found.name for found in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert imported - {"deploy"} <= sys.stdlib_module_names
