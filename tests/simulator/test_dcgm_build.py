"""Building the simulated libdcgm, and whether its structs are DCGM's."""

import csv
import ctypes
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

import exporter
from exporter.sensor.dcgm import abi
from simulator import build, dcgm_build, dcgm_fields
from simulator.compiler import find_compiler
from simulator.dcgm_file import parse, render
from tests.simulator.dcgm_layouts import STRUCTS, VERSIONS


def _described(struct: Any) -> dict[str, list[int]]:
    """Offset and size by field, and the whole's size under an empty name."""
    fields = {
        name: [getattr(struct, name).offset, getattr(struct, name).size]
        for name, *_ in struct._fields_
    }
    return {"": [0, ctypes.sizeof(struct)], **fields}


def test_the_structs_in_c_are_those_of_dcgms_headers(tmp_path: Path) -> None:
    rows = [(name, field) for name, struct in STRUCTS.items() for field, *_ in struct._fields_]
    program = "\n".join(
        (
            "#include <stddef.h>\n#include <stdio.h>\n#include <abi.h>\nint main(void) {",
            *(f'printf("%s. 0 %zu\\n", "{name}", sizeof({name}));' for name in STRUCTS),
            *(
                f'printf("%s.%s %zu %zu\\n", "{name}", "{field}", offsetof({name}, {field}), '
                f"sizeof((({name} *)0)->{field}));"
                for name, field in rows
            ),
            "return 0; }",
        )
    )
    (tmp_path / "main.c").write_text(program, encoding="utf-8")
    binary = tmp_path / "main"
    compiled = [*find_compiler(), f"-I{dcgm_build.SOURCES}", "-o", str(binary)]
    subprocess.run([*compiled, str(tmp_path / "main.c")], check=True)
    reported = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
    in_c: dict[str, dict[str, list[int]]] = {}
    for line in reported.splitlines():
        where, offset, size = line.split()
        name, _, field = where.partition(".")
        in_c.setdefault(name, {})[field] = [int(offset), int(size)]
    assert in_c == {name: _described(struct) for name, struct in STRUCTS.items()}


def _shape(struct: Any) -> list[tuple[int, int]]:
    """Offset and size of each field in order, whatever it is called; first the whole's size."""
    fields = [getattr(struct, name) for name, *_ in struct._fields_]
    return [(0, ctypes.sizeof(struct)), *((field.offset, field.size) for field in fields)]


def test_the_structs_are_those_that_the_exporter_derives() -> None:
    """Each of the exporter's structs says in its docstring which of DCGM's it is."""
    theirs = {
        re.findall(r"\w+", value.__doc__ or "")[0]: value
        for value in vars(abi).values()
        if isinstance(value, type) and value.__module__ == abi.__name__
        if issubclass(value, ctypes.Structure)
    }
    for name, struct in theirs.items():
        assert _shape(struct) == _shape(STRUCTS[name]), name
    assert len(theirs) >= 13


def test_the_exporters_version_words_are_dcgms() -> None:
    words = {value for name, value in vars(abi).items() if name.endswith("_VERSION")}
    assert len(words) >= 7
    assert words <= set(VERSIONS.values())


def test_version_words_are_those_that_were_observed() -> None:
    """Sizes from DCGM 4.x's headers; a wrong one is refused by a real library."""
    assert VERSIONS["dcgmFieldValue_v1"] == 0x1001018
    assert VERSIONS["dcgmConnectV2Params_v2"] == 0x2000010
    assert VERSIONS["dcgmVersionInfo_v2"] == 0x2000204
    assert VERSIONS["dcgmGroupInfo_v3"] == 0x3002108


def test_a_second_build_is_the_same_file_and_compiles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = dcgm_build.build_library()
    stamp = first.stat().st_mtime_ns
    assert dcgm_build.build_library() == first
    assert first.stat().st_mtime_ns == stamp
    assert [path.name for path in first.parent.iterdir()] == [dcgm_build.LIBRARY]


def test_the_sources_compile_without_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    dcgm_build.build_library()
    assert capfd.readouterr().err == ""


def test_a_compiler_that_fails_is_reported_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", f"{shlex.join(find_compiler())} -include no-such-file.h")
    with pytest.raises(build.BuildError, match=r"no-such-file\.h"):
        dcgm_build.build_library()


def test_the_library_carries_dcgms_soname() -> None:
    text = dcgm_build.build_library().read_bytes()
    assert b"libdcgm.so.4\0" in text


def test_every_scenario_value_that_a_field_shows_exists() -> None:
    assert dcgm_fields.unknown_values() == []


def test_the_fields_are_those_of_the_exporters_table() -> None:
    """Ids, types and levels; from 9001 the table has numbers of its own."""
    path = Path(exporter.__file__).parent / "data" / "dcgm_fields.csv"
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["id"]) < 9000]
    types = {"int": "i", "float": "d", "text": "s", "binary": "b"}
    levels = ("global", "gpu", "vgpu", "switch", "gi", "ci", "link", "cpu", "core", "connectx")
    theirs = {int(row["id"]): (types[row["type"]], levels.index(row["level"])) for row in rows}
    assert {field.id: (field.type, field.level) for field in dcgm_fields.fields()} == theirs


def test_what_is_written_is_read_back() -> None:
    sections = {
        "engine": {"failure": "hung on dcgmInit"},
        "listen 127.0.0.1:5555": {},
        "health": {"incident 1": "gpu=0 system=memory health=warn code=4 text=a = b"},
    }
    assert parse(render(sections)) == sections
    assert json.loads(json.dumps(sections)) == parse(f"# a comment\n{render(sections)}")
