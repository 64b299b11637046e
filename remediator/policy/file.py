"""The policy file: YAML into a `Policy`, and the last good one kept when it is bad.

```yaml
defaults: {mode: incident-only, settle: 3s, soak: 10m}
classes:
  contained: {mode: enforce}
  gpu: {mode: enforce, ceiling: NoSchedule}
budget: {evict_gpus_per_node: 2}
```
"""

import logging
import re
from datetime import timedelta
from pathlib import Path

import msgspec
import yaml

from remediator.judge.fault import FaultClass
from remediator.objects.taints import Effect
from remediator.policy.table import SHIPPED, Limits, Mode, Policy, PolicyError, Row

_log = logging.getLogger(__name__)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
LONGEST = timedelta(days=90)
"""A longer time is a slip of the pen."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class RowText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file may say of a class; what it leaves out stays as shipped."""

    mode: Mode | None = None
    ceiling: Effect | None = None
    settle: str | None = None
    soak: str | None = None


class LimitsText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    evict_gpus_per_node: int | None = None
    evict_gpus_per_cluster: int | None = None
    fence_gpus_per_cluster: int | None = None


class PolicyText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    defaults: RowText = RowText()
    classes: dict[FaultClass, RowText] = {}
    budget: LimitsText = LimitsText()


def read(text: str) -> Policy:
    """Read a policy. Raises PolicyError with the place and what may be written there."""
    try:
        raw: object = yaml.safe_load(text)
        said = msgspec.convert(raw or {}, PolicyText)
    except (yaml.YAMLError, RecursionError) as error:
        raise PolicyError(f"no YAML: {error}") from error
    except msgspec.ValidationError as error:
        raise PolicyError(f"{error}") from error
    if said.defaults.ceiling is not None:
        raise PolicyError("defaults: ceiling is set per class; each class has its own reason")
    rows = tuple(_row(row, said.defaults, said.classes.get(row.fault_class)) for row in SHIPPED)
    return Policy(rows=rows, limits=msgspec.structs.replace(Limits(), **_said(said.budget)))


def _row(shipped: Row, defaults: RowText, own: RowText | None) -> Row:
    said = _said(defaults) | _said(own or RowText())
    for name in ("settle", "soak"):
        if name in said:
            said[name] = _duration(shipped.fault_class, name, str(said[name]))
    return msgspec.structs.replace(shipped, **said)


def _said(text: RowText | LimitsText) -> dict[str, object]:
    return {
        name: value for name, value in msgspec.structs.asdict(text).items() if value is not None
    }


def _duration(fault_class: str, name: str, text: str) -> timedelta:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise PolicyError(
            f"class {fault_class}: {name}: {text!r} is no duration; write 500ms, 3s, 10m or 1h"
        )
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > LONGEST.total_seconds():
        raise PolicyError(f"class {fault_class}: {name}: {text} is longer than {LONGEST.days} days")
    return timedelta(seconds=seconds)


class PolicyFile:
    """The policy in force. A file that turns bad changes nothing but `error`.

    A file that was never good gives no policy at all (`ready` is False): to fall
    back to the shipped one would take down every rule that a better day set up.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self.policy: Policy = Policy()
        self.ready = path is None
        self.error = ""

    def load(self) -> bool:
        """Read the file if it changed; return whether the policy in force changed."""
        if self._path is None:
            return False
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp == self._stamp:
                return False
            policy = read(self._path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, PolicyError) as error:
            return self._keep(f"policy {self._path}: {error}")
        self._stamp, self.error = stamp, ""
        changed = policy != self.policy or not self.ready
        self.policy, self.ready = policy, True
        _log.info("policy %s: %s", self._path, in_words(policy))
        return changed

    def _keep(self, error: str) -> bool:
        goes_on = (
            "the last good policy stays in force"
            if self.ready
            else "nothing is done until it can be read"
        )
        if error != self.error:
            _log.error("%s; %s", error, goes_on)
        self.error = error
        return False


def in_words(policy: Policy) -> str:
    """Return the policy as one line for the log."""
    rows = ", ".join(f"{row.fault_class} {row.mode} up to {row.ceiling}" for row in policy.rows)
    limits = ", ".join(f"{name}={value}" for name, value in _limits(policy).items())
    return f"{rows}; {limits}"


def _limits(policy: Policy) -> dict[str, object]:
    return msgspec.structs.asdict(policy.limits)
