"""To name one GPU in the release file, as a shell writes it, lets go of no other."""

from simulator.node import SimulatedNode
from tests.exporter.running import Exporter


def test_a_file_that_is_empty_while_it_is_written_does_not_let_go_of_the_node(
    node: SimulatedNode,
) -> None:
    file = node.root / "release" / "now"
    file.parent.mkdir()
    with Exporter(node, "run", "--no-report", "--interval=1", f"--release-file={file}") as exporter:
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
        for _ in range(5):
            # Made empty and then written, as by `echo UUID > FILE`.
            file.write_text(f"{node.gpu(0).uuid}\n", encoding="utf-8")
            exporter.wait_shows('presence="Unknown",reason="Released"')
            file.unlink()
            exporter.wait_shows(f'draguard_gpu_up{{UUID="{node.gpu(0).uuid}"')
        assert "names no GPU" not in exporter.said()
