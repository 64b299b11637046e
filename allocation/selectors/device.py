"""One device as a selector sees it: the frame that crosses to the process that evaluates. Pure."""

import msgspec

Attribute = bool | int | str | tuple[bool | int | str, ...]


class SelectedDevice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The variable `device` of an expression (resource.k8s.io/v1, CELDeviceSelector).

    Names of attributes and capacities without a domain are in that of the driver.
    """

    driver: str
    shared: bool = False
    """`allowMultipleAllocations`."""
    attributes: dict[str, Attribute] = {}
    versions: dict[str, str | tuple[str, ...]] = {}
    """Attributes whose type is `version`."""
    capacity: dict[str, str] = {}
    """Quantities."""


def split_name(name: str, driver: str) -> tuple[str, str]:
    """Return domain and identifier of a qualified name."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)
