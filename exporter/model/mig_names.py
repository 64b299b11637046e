"""Where on its GPU a MIG device lies, read from the name that NVIDIA's DRA driver gives it.

For dynamic MIG the name is all there is: profile id and placement are in no
attribute. Grammars, with the minor number of the GPU first:

- `gpu-0-mig-1g24gb-me-20-6`, profile, GI profile id, start (v25.12 and newer);
- `gpu-0-mig-19-6-1`, GI profile id, start, size (v25.3 to v25.8).

Pure.
"""

import re

import msgspec

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_NAMED = re.compile(
    rf"gpu-(?P<minor>{_NUMBER})-mig-(?P<profile>(?:[0-9]+c)?[0-9]+g[0-9]+gb(?:-[a-z][a-z0-9]*)*)"
    rf"-(?P<gi_profile>{_NUMBER})-(?P<start>{_NUMBER})"
)
_NUMBERED = re.compile(
    rf"gpu-(?P<minor>{_NUMBER})-mig-(?P<gi_profile>{_NUMBER})-(?P<start>{_NUMBER})"
    rf"-(?P<size>{_NUMBER})"
)


class Placement(msgspec.Struct, frozen=True, order=True):
    """The place that a MIG device takes when it is live."""

    minor: int
    """Of /dev/nvidiaN, of the parent."""
    gi_profile_id: int
    """As nvidia-smi shows it (19, 20, 15, 14, 9, 5, 0), and nvmlGpuInstanceProfileInfo_t.id."""
    start: int
    """First memory slice, nvmlGpuInstancePlacement_t.start."""
    size: int | None = None
    """Memory slices; None when the name does not say it."""


def placement_of(name: str) -> Placement | None:
    """Return where a MIG device lies, None when the name says nothing of it."""
    found = _NAMED.fullmatch(name) or _NUMBERED.fullmatch(name)
    if found is None:
        return None
    size = int(found["size"]) if "size" in found.re.groupindex else None
    return Placement(
        int(found["minor"]), int(found["gi_profile"]), int(found["start"]), size or None
    )
