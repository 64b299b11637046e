"""The counters file: dcgm-exporter's rows and errors, and taking up a new one."""

import contextlib
import csv
import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.metrics import counters, fields
from exporter.metrics.counters import Counters, CountersError
from exporter.metrics.counters_file import CountersFile

TEMP = "DCGM_FI_DEV_GPU_TEMP"
ROW = f"{TEMP},gauge,GPU temperature.\n"


def read(text: str) -> Counters:
    return counters.parse(text.encode(), "counters.csv")


def names(found: Counters) -> list[str]:
    return [row.name for row in found.metrics]


def refused(data: bytes) -> CountersError:
    with pytest.raises(CountersError) as caught:
        counters.parse(data, "counters.csv")
    return caught.value


def test_the_default_set_is_dcgm_exporters_26_rows() -> None:
    found = counters.default()
    assert len(found.metrics) == 25
    assert [row.name for row in found.labels] == ["DCGM_FI_DRIVER_VERSION"]
    kinds = {row.name for row in found.metrics if row.type == "counter"}
    assert kinds == {
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    }
    assert found.notes == ()


def test_comments_blank_lines_and_spaces_are_passed_over() -> None:
    text = (
        f'# a comment\n\n   \n  # indented, with "odd quote\n  {TEMP} , gauge ,  Temperature.  \n'
    )
    (row,) = read(text).metrics
    assert (row.name, row.type, row.help) == (TEMP, "gauge", "Temperature.")


def test_a_quoted_help_text_may_have_commas_and_quotes() -> None:
    (row,) = read(f'{TEMP},gauge,"Hot, ""very"" hot"\n').metrics
    assert row.help == 'Hot, "very" hot'


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    data = b"\xef\xbb\xbf" + ROW.replace("\n", "\r\n").encode()
    assert counters.parse(data, "counters.csv") == read(ROW)


def test_the_name_of_the_metric_is_the_name_in_the_file() -> None:
    new = "DCGM_FI_DEV_GPU_TEMP_CELSIUS"
    found = read(f"{new},gauge,x\n{ROW}")
    assert names(found) == [new, TEMP]
    assert found.metrics[0].field == found.metrics[1].field
    assert found.requested == (150,)


BAD_ROWS = [
    (f"{TEMP},gauge\n", "ColumnCount", "line 2 of counters.csv has 2 columns"),
    (f"{TEMP},gauge,a,b\n", "ColumnCount", "has 4 columns"),
    ("DCGM_FI_DEV_GPU_TMEP,gauge,x\n", "UnknownField", "'DCGM_FI_DEV_GPU_TMEP' is not a DCGM"),
    ("DCGM_EXP_OF_NEXT_YEAR,gauge,x\n", "UnknownField", "'DCGM_EXP_OF_NEXT_YEAR' is not a DCGM"),
    ("dcgm_gpu_temp,gauge,x\n", "UnknownField", "1.x"),
    (f"{TEMP},gague,x\n", "UnknownType", "'gague' is not a Prometheus type; use one of gauge"),
    (f'{TEMP},gauge,"never closed\n', "BadQuotes", "line 2"),
    (f'{TEMP},gauge,"closed" too early\n', "BadQuotes", "line 2"),
]
CLOCK = "DCGM_FI_DEV_SM_CLOCK,gauge,SM clock.\n"


@pytest.mark.parametrize(("text", "reason", "words"), BAD_ROWS)
def test_a_bad_row_is_left_out_with_line_and_remedy_and_the_others_are_in_force(
    text: str, reason: str, words: str
) -> None:
    found = read(f"{ROW}{text}{CLOCK}")
    assert names(found) == [TEMP, "DCGM_FI_DEV_SM_CLOCK"]
    assert found.left_out == {reason: 1}
    (message,) = found.notes
    assert "line 2 of counters.csv" in message
    assert words in message
    assert message.endswith("(the row is left out)")


@pytest.mark.parametrize(("text", "reason", "words"), BAD_ROWS)
def test_a_file_without_a_good_row_is_refused_with_line_and_remedy(
    text: str, reason: str, words: str
) -> None:
    error = refused(f"# nothing good\n{text}".encode())
    assert error.reason == reason
    assert words in str(error)
    assert str(error).endswith("(no row of the file can be shown)")


def test_a_file_of_comments_alone_shows_nothing_and_is_no_mistake() -> None:
    assert read("# DCGM_FI_DEV_GPU_TEMP, gauge, x\n\n") == Counters()


def test_of_many_bad_rows_all_are_counted_and_the_first_ones_reported() -> None:
    found = read(ROW + "x\n" * 1000 + "y,gauge,z\n" * 5)
    assert found.left_out == {"ColumnCount": 1000, "UnknownField": 5}
    assert len(found.notes) == counters.MOST_REPORTED + 1
    assert found.notes[-1] == "985 more rows of counters.csv are left out"


def test_a_file_that_is_no_text_or_far_too_large_is_refused() -> None:
    assert refused(b"\x7fELF\x00\x01\x02").reason == "NotText"
    assert refused(b"\xff\xfe" + ROW.encode("utf-16-le")).reason == "NotText"
    assert refused(ROW.encode() * ((10 << 20) // len(ROW))).reason == "TooLarge"


def test_a_name_that_comes_twice_counts_once_and_is_reported() -> None:
    found = read(f"{ROW}{TEMP},counter,again\n")
    assert [row.type for row in found.metrics] == ["gauge"]
    assert found.notes == (
        "line 2 of counters.csv names DCGM_FI_DEV_GPU_TEMP again; the first line counts",
    )


def test_a_field_without_a_value_to_show_is_reported() -> None:
    assert "has no value" in read("DCGM_FI_DEV_SUPPORTED_CLOCKS,gauge,x\n").notes[0]


def test_labels_are_apart_and_sorted() -> None:
    found = read("DCGM_FI_DRIVER_VERSION,label,x\nDCGM_FI_DEV_BRAND,label,x\n")
    assert [row.name for row in found.labels] == ["DCGM_FI_DEV_BRAND", "DCGM_FI_DRIVER_VERSION"]
    assert found.metrics == ()
    assert found.requested == (1, 51)


def test_computed_families_are_queried_of_no_library_but_what_they_need_is() -> None:
    found = read("DCGM_EXP_XID_ERRORS_COUNT,gauge,x\nDCGM_EXP_CLOCK_EVENTS_COUNT,gauge,x\n")
    assert found.requested == (fields.CLOCKS_EVENT_REASONS,)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_and_never_crash(data: bytes) -> None:
    with contextlib.suppress(CountersError):
        found = counters.parse(data, "counters.csv")
        assert all(row.help == row.help.strip() for row in found.metrics)


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60))
def test_any_help_text_comes_back_as_it_was_written(text: str) -> None:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([TEMP, "gauge", text])
    assert read(line.getvalue()).metrics[0].help == text.strip()


# --- the file


def write(path: Path, text: str) -> None:
    """Write as an editor does; the time differs although the clock may be coarse."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before + 1, before + 1))


def test_a_file_that_is_a_byte_too_large_is_not_taken_for_its_beginning(tmp_path: Path) -> None:
    path, row = tmp_path / "large.csv", ROW.encode()
    path.write_bytes(row + b"#" * (counters.MAX_BYTES - len(row)))
    assert len(CountersFile(path).current.metrics) == 1
    path.write_bytes(path.read_bytes() + b"#")
    with pytest.raises(CountersError) as caught:
        CountersFile(path)
    assert caught.value.reason == "TooLarge"


def test_without_a_file_the_default_set_is_in_force() -> None:
    file = CountersFile(None)
    file.ask()
    assert not file.look()
    assert file.current == counters.default()


def test_a_missing_or_bad_file_at_the_start_ends_the_process(tmp_path: Path) -> None:
    with pytest.raises(CountersError, match=r"cannot be read \(No such file") as caught:
        CountersFile(tmp_path / "none.csv")
    assert caught.value.reason == "Unreadable"
    bad = tmp_path / "bad.csv"
    bad.write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(CountersError, match="has 1 columns"):
        CountersFile(bad)


def test_a_file_that_changes_is_taken_up_and_one_that_does_not_is_not_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "counters.csv"
    write(path, ROW)
    file = CountersFile(path)
    assert not file.look()
    write(path, "DCGM_FI_DEV_SM_CLOCK,gauge,x\n")
    assert file.look()
    assert names(file.current) == ["DCGM_FI_DEV_SM_CLOCK"]
    assert not file.look()


def test_a_configmap_that_is_swapped_by_its_link_is_taken_up(tmp_path: Path) -> None:
    """As the kubelet does it: counters.csv -> ..data/counters.csv, ..data -> ..<time>."""
    for folder, text in (("..1", ROW), ("..2", "DCGM_FI_DEV_SM_CLOCK,gauge,x\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "counters.csv").write_text(text, encoding="utf-8")
        os.utime(tmp_path / folder / "counters.csv", ns=(1, 1))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "counters.csv").symlink_to("..data/counters.csv")
    file = CountersFile(tmp_path / "counters.csv")
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert file.look()
    assert names(file.current) == ["DCGM_FI_DEV_SM_CLOCK"]


def test_a_bad_new_file_leaves_the_old_one_in_force_and_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    write(path, ROW)
    file = CountersFile(path)
    write(path, "nonsense\n")
    assert not file.look()
    assert not file.look()
    assert names(file.current) == [TEMP]
    assert (file.reloads.failures, file.reloads.last_ok) == (1, False)
    write(path, ROW)
    assert not file.look()
    assert (file.reloads.failures, file.reloads.last_ok) == (1, True)


def test_a_file_that_vanishes_leaves_the_old_one_in_force(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    write(path, ROW)
    file = CountersFile(path)
    path.unlink()
    assert not file.look()
    assert (file.reloads.failures, file.reloads.last_ok) == (1, False)
    assert names(file.current) == [TEMP]


def test_a_new_file_with_a_bad_row_is_taken_up_without_it(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    write(path, ROW)
    file = CountersFile(path)
    write(path, f"{CLOCK}nonsense\n")
    assert file.look()
    assert names(file.current) == ["DCGM_FI_DEV_SM_CLOCK"]
    assert file.current.left_out == {"ColumnCount": 1}
    assert (file.reloads.failures, file.reloads.last_ok) == (0, True)


def test_each_row_that_is_left_out_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "counters.csv"
    write(path, f"{ROW}nonsense\n")
    file = CountersFile(path)
    file.ask()
    assert not file.look()
    (record,) = [entry for entry in caplog.records if entry.levelname == "WARNING"]
    assert f"line 2 of {path} has 1 columns" in record.getMessage()


def test_on_request_the_file_is_read_even_if_it_seems_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    write(path, ROW)
    file = CountersFile(path)
    stamp = path.stat()
    path.write_text(ROW.replace("temp", "TEMP"), encoding="utf-8")
    os.utime(path, ns=(stamp.st_mtime_ns, stamp.st_mtime_ns))
    assert not file.look()
    file.ask()
    assert file.look()
