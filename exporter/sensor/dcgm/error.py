"""What went wrong with DCGM, as one exception with a stable reason. Pure."""

from exporter.sensor.dcgm.abi import SONAME, Status

LIBRARY_NOT_FOUND = "LibraryNotFound"
VERSION_MISMATCH = "VersionMismatch"
CONNECTION_LOST = "ConnectionLost"
ENGINE_UNREACHABLE = "EngineUnreachable"
ENGINE_REFUSED = "EngineRefused"
ENGINE_BLANK = "EngineBlank"
ENGINE_FROZEN = "EngineFrozen"

_ADVICE = {
    LIBRARY_NOT_FOUND: f"install DCGM 4 where the sensor finds {SONAME}, or name its folder with "
    "--dcgm-library-dir",
    VERSION_MISMATCH: "library and host engine must both be DCGM 4: bring them to one version",
    CONNECTION_LOST: "the host engine ended or was restarted; it is connected to again",
    ENGINE_UNREACHABLE: "start nv-hostengine, and compare its address with --dcgm",
    ENGINE_REFUSED: "see the log of the host engine",
    ENGINE_BLANK: "no GPU of it answers any more, as after an XID 119 of one of them: restart the "
    "host engine. An embedded one is started again by itself",
    ENGINE_FROZEN: "it answers from memory and reads no GPU any more, as while one of them hangs: "
    "drain the node, reset the GPU and restart the host engine",
}

_REASONS: dict[int, str] = {
    Status.VER_MISMATCH: VERSION_MISMATCH,
    Status.FUNCTION_NOT_FOUND: VERSION_MISMATCH,
    Status.LIBRARY_NOT_FOUND: LIBRARY_NOT_FOUND,
    Status.CONNECTION_NOT_VALID: CONNECTION_LOST,
}
_WHILE_CONNECTING: dict[int, str] = {
    Status.CONNECTION_NOT_VALID: ENGINE_UNREACHABLE,
    Status.TIMEOUT: ENGINE_UNREACHABLE,
    Status.BADPARAM: ENGINE_UNREACHABLE,
}

CONNECT = "dcgmConnect_v2"


class DcgmError(Exception):
    """DCGM said no. `code` is a dcgmReturn_t, `reason` a stable word."""

    def __init__(self, call: str, code: int, text: str = "", reason: str = "") -> None:
        self.call = call
        self.code = code
        table = {**_REASONS, **_WHILE_CONNECTING} if call == CONNECT else _REASONS
        self.reason = reason or table.get(code, ENGINE_REFUSED)
        self.lost = self.reason == CONNECTION_LOST
        """Whether every further call would say the same."""
        super().__init__(f"{call}: {text or name_of(code)}; {_ADVICE[self.reason]}")


def name_of(code: int) -> str:
    """Return a status as DCGM's headers call it, and its number."""
    try:
        return f"DCGM_ST_{Status(code).name} ({code})"
    except ValueError:
        return f"status {code}"
