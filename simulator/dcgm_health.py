"""What the health checks of a simulated DCGM report, and what other clients do to their watches."""

from typing import Literal

from simulator.dcgm_file import DcgmFile

System = Literal["pcie", "nvlink", "memory", "sm", "inforom", "thermal", "power", "driver", "xid"]


class DcgmHealth:
    """Incidents by GPU, a section's number, and GPU instance, NVML's id."""

    def __init__(self, file: DcgmFile) -> None:
        self._file = file

    def add_incident(
        self,
        gpu: int,
        system: System,
        health: Literal["warn", "fail"] = "fail",
        *,
        gi: int | None = None,
        code: int = 0,
        text: str = "",
    ) -> None:
        """Let health checks of the GPU, or of an instance, report this; XIDs do so themselves."""
        where = f"gpu={gpu}" if gi is None else f"gpu={gpu} gi={gi}"
        words = f"{where} system={system} health={health} code={code} text={text}"
        with self._file.edit() as sections:
            incidents = sections.setdefault("health", {})
            number = 1 + sum(key.startswith("incident ") for key in incidents)
            incidents[f"incident {number}"] = words

    def clear_incidents(self) -> None:
        """Let health checks report nothing but XIDs."""
        with self._file.edit() as sections:
            sections.pop("health", None)

    def others_watch_all_gpus(self, systems: int) -> None:
        """Let another client keep the health watches of the group of all GPUs at this mask."""
        self._file.set("health", "all_gpus", str(systems))

    def others_clear_watches(self) -> None:
        """Let another client clear the health watches of every other group, once."""
        with self._file.edit() as sections:
            health = sections.setdefault("health", {})
            health["taken"] = str(int(health.get("taken", "0")) + 1)
