"""Who uses how much of a GPU that a device plugin shares out, by a running exporter."""

from pathlib import Path

from simulator import holdings
from simulator.gpu import Process
from tests.exporter.live.stage import NVML_UP, exporter_of, samples, simulated
from tests.exporter.running import wait_for

SHARED = 0
MEMORY = "draguard_pod_memory_used_bytes"
UIDS = {
    "one": "11111111-2222-3333-4444-555555555555",
    "two": "66666666-7777-8888-9999-000000000000",
}


def test_pods_of_a_device_plugin_have_shares_without_a_watch_of_pods(tmp_path: Path) -> None:
    with simulated("1xH100") as node:
        gpu = node.gpu(SHARED)
        for number, (pod, uid) in enumerate(UIDS.items()):
            (tmp_path / f"ml_{pod}_{uid}").mkdir()
            node.start_process(SHARED, Process(pid=100 + number, memory_mib=512 * (1 + number)))
            node.put_in_pod(100 + number, uid)
        ids = [holdings.plugin_ids(gpu, replica=number)["replica"] for number in range(len(UIDS))]
        node.kubelet.set_pods(
            [
                holdings.pod(
                    pod, holdings.container(plugins=[holdings.plugin("nvidia.com/gpu", id_)])
                )
                for pod, id_ in zip(UIDS, ids, strict=True)
            ]
        )
        with exporter_of(node, "--no-report", f"--pod-log-dir={tmp_path}") as exporter:
            exporter.wait_shows(
                NVML_UP,
                'draguard_source_up{source="processes"} 1',
                'draguard_source_up{source="pod-folders"} 1',
            )
            wait_for(lambda: len(exporter.series(MEMORY)) == len(UIDS), what="a share for each pod")
            assert sorted(exporter.series(MEMORY).values()) == [512 << 20, 1024 << 20]
            reported = {(labels["pod"], labels["pod_uid"]) for labels in samples(exporter, MEMORY)}
            assert reported == set(UIDS.items())


def test_without_the_nodes_processes_it_says_why_nobody_has_a_share() -> None:
    with (
        simulated("1xH100") as node,
        exporter_of(node, "--no-report", "--no-processes") as exporter,
    ):
        exporter.wait_shows(NVML_UP, 'draguard_source_up{source="processes",reason="HostPIDOff"} 0')
