"""Which process of an exporter is which, by its command line."""

from benchmarks.programs import DCGM_CHILD, NVML_CHILD, children, parts


def test_each_process_has_its_name_and_strangers_have_none() -> None:
    found = parts(
        {
            11: "python -m exporter sensor --node-name=a",
            12: "python -m exporter.sensor.nvml.child 7 3 11",
            13: "python -m exporter.sensor.dcgm.child 8 4 11",
            14: "sleep 5",
        }
    )

    assert found == {"sensor": 11, NVML_CHILD: 12, DCGM_CHILD: 13}


def test_a_child_that_was_just_forked_is_not_its_sensor() -> None:
    forked = {20: "python -m exporter sensor --node-name=a"}
    assert parts({11: "python -m exporter sensor --node-name=a", **forked}) == {"sensor": 11}
    assert children({12: "python -m exporter.sensor.nvml.child 7 3 11", **forked}) == {
        NVML_CHILD: 12
    }
