"""Which version of an API the server really serves.

Reads the resource list of each group version, because a served group version may lack the resource:
`resource.k8s.io/v1` exists since 1.34 and has DeviceTaintRules only since 1.37.
"""

from collections.abc import Iterable

import msgspec

from kubeapi.client import UNREADABLE, ApiError, Client, NotFound


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _ResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] | None = ()


_lists = msgspec.json.Decoder(_ResourceList)


def served(client: Client, group: str, resource: str, versions: Iterable[str]) -> str | None:
    """Return the first of `versions` that has `resource` (plural); None when none has.

    Raises ApiError when the server does not answer: not to know is not the same as not served.
    """
    for version in versions:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            listed = _lists.decode(client.get(path))
        except NotFound:
            continue
        except UNREADABLE as error:
            raise ApiError(f"GET {path}: the answer is not a resource list ({error})") from error
        if any(entry.name == resource for entry in listed.resources or ()):
            return version
    return None
