"""The NVSwitches and CPUs that a simulated DCGM lists; the scenario knows neither."""

from collections.abc import Mapping

from simulator import dcgm_fields
from simulator.dcgm_file import DcgmFaultError, DcgmFile, Fields


class DcgmParts:
    """Switches with their links and CPUs with their cores, by their numbers."""

    def __init__(self, file: DcgmFile) -> None:
        self._file = file

    def add_switch(self, switch: int, *, links: int = 64, fields: Fields | None = None) -> None:
        """Let there be an NVSwitch with so many NVLinks, all up."""
        self._add(f"switch {switch}", {"links": links}, fields)

    def set_switch_link(self, switch: int, link: int, fields: Fields, *, up: bool = True) -> None:
        """Set what a link of a switch reports, and whether it is up."""
        self._add(f"switch_link {switch}/{link}", {"state": "up" if up else "down"}, fields)

    def remove_switch(self, switch: int) -> None:
        """Let an NVSwitch, and its links with it, not be listed any more."""
        with self._file.edit() as sections:
            sections.pop(f"switch {switch}", None)

    def add_cpu(
        self, cpu: int, *, first: int, cores: int, serial: str = "", fields: Fields | None = None
    ) -> None:
        """Let there be a CPU with so many cores, which are counted over all CPUs."""
        settings = {"first_core": first, "cores": cores} | ({"serial": serial} if serial else {})
        self._add(f"cpu {cpu}", settings, fields)

    def set_core(self, core: int, fields: Fields) -> None:
        """Set what a core reports."""
        self._add(f"core {core}", {}, fields)

    def _add(self, section: str, settings: Mapping[str, object], fields: Fields | None) -> None:
        known = {field.id for field in dcgm_fields.fields()}
        if unknown := sorted(set(fields or ()) - known):
            raise DcgmFaultError(f"DCGM has no field {unknown[0]}; see simulator/dcgm_fields.py")
        stated = {f"field {number}": value for number, value in (fields or {}).items()}
        written = {**settings, **stated}
        with self._file.edit() as sections:
            sections.setdefault(section, {}).update(
                {key: str(value) for key, value in written.items()}
            )
