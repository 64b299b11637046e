"""What the supervisor of the DCGM child must know of DCGM.

An embedded engine holds every GPU of the node open, so it makes way as soon as
one of them must be let go. A host engine of its own holds them whatever we do;
we are silent then only when nothing on the node should be read at all.
"""

import logging
import os
from collections.abc import Callable, Mapping

from exporter import protocol
from exporter.model.readings import CallNote, DcgmReading, Hang
from exporter.sensor.dcgm import options
from exporter.sensor.nvml import preload
from exporter.sensor.supervisor.release_file import ReleaseFile
from exporter.settings import Settings

_log = logging.getLogger(__name__)

OFF = "off"
NOT_LISTED = "EntitiesNotListed"
"""Reason while DCGM works and lists no NVSwitch, link or CPU that rows or options name."""


class DcgmVendor:
    """Implements `child.Vendor`."""

    name = "dcgm"
    title = "DCGM"
    module = "exporter.sensor.dcgm.child"

    def __init__(self, settings: Settings, requested: Callable[[], tuple[int, ...]]) -> None:
        """Prepare for the engine that `settings.dcgm` names; that must not be `off`.

        `requested` is read at each sample; `left_to_dcgm` leaves out what NVML reports.
        """
        self._settings = settings
        self._release = ReleaseFile(settings.release_file)
        self._requested = requested
        self._options = options.options_of(settings)
        self._missing = ""

    def environment(self) -> Mapping[str, str]:
        settings = self._settings
        found = preload.variables(settings.nvml_library_dirs)
        if settings.dcgm_library_dir:
            # By the loader: libdcgm finds its modules only there.
            before = os.environ.get("LD_LIBRARY_PATH")
            path = [str(settings.dcgm_library_dir), *([before] if before else [])]
            found["LD_LIBRARY_PATH"] = ":".join(path)
        return {options.VARIABLE: options.encode(self._options), **found}

    def withheld(self) -> tuple[str, str] | None:
        named = self._release.named()
        if named is None or (named and not self._options.embedded):
            return None
        return (
            "Released",
            f"{self._release.path} is there, and DCGM holds every GPU of the node open, so it is "
            "not used; remove the file when the reset or driver change is done",
        )

    def request(self, now: float) -> protocol.SampleRequest:  # noqa: ARG002 - as `child.Vendor` has it
        return protocol.SampleRequest(requested=self._requested())

    def reading(
        self,
        message: protocol.FromChild,
        request: protocol.SampleRequest,  # noqa: ARG002 - as `child.Vendor` has it
    ) -> DcgmReading | None:
        if not isinstance(message, protocol.DcgmSampled):
            return None
        missing = "; ".join(message.reading.remarks)
        if missing and missing != self._missing:
            _log.warning("DCGM: %s", missing)
        self._missing = missing
        return message.reading

    def hung(self, note: CallNote, now: float) -> Hang:  # noqa: ARG002 - as `child.Vendor` has it
        # A call of DCGM's is about all GPUs: none can be left out for it.
        return Hang(note.call)

    def remark(self) -> tuple[str, str, Hang | None]:
        return NOT_LISTED if self._missing else "", self._missing, None

    def must_reopen(self) -> bool:
        return self.withheld() is not None
