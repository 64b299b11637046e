"""One device as a selector sees it: the frame that crosses to the process that evaluates. Pure."""

import re

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


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOOKS_AT_WHOLE_MAPS = re.compile(
    r"\{|\bsize\b|\.(?:all|exists|exists_one|existsOne|map|filter|transform\w*)\s*\("
)
"""What may depend on an attribute that is not named: a macro, a size, a map literal."""
_COMPUTED_INDEX = re.compile(
    r"""(?<!attributes)(?<!capacity)\[\s*\??\s*(?!["'][^"'\\]*["']\s*\]|[0-9]+\s*\])"""
)
"""An index that is no literal, but of domains: that hides no name of an attribute."""
_DOMAIN = (
    r"""device\s*\.\s*(?:attributes|capacity)\s*"""
    r"""(?:\[\s*\??\s*(?:["'][^"'\\]*["']|[\w.]+)\s*\]|\.\s*\w+)(?!\s*[.\[\w])"""
)
_ONE_DOMAIN = re.compile(_DOMAIN)
"""All of a domain: what compares it, binds it to a name, or looks for a name that is computed."""
_NAMED_IN = re.compile(rf"""((?:^|[(&|,?:])\s*["'][^"'\\]*["']\s*)\bin\s+{_DOMAIN}""")
"""A literal that a domain may have: its words are read, as those of any other literal."""
_COMPUTED_DOMAIN = re.compile(
    r"""(?:attributes|capacity)\s*\[(?!\s*\??\s*(?:["'][^"'\\]*["']|[\w.]+)\s*\])"""
)
_DOMAINS = re.compile(
    r"device\s*\.\s*(?:attributes|capacity)\b(?!\s*(?:\[|\.\s*[A-Za-z_]+\b(?!\s*\()))"
)
"""`device.attributes` where all domains are looked at, and not one of them."""


def looks_at_domains(expression: str) -> bool:
    """Whether it may depend on which domains a device has."""
    return _DOMAINS.search(expression) is not None


def names_read(expression: str) -> frozenset[str] | None:
    """Return the words of an expression, among which are all attributes that it reads; None: any.

    So devices that differ in others, such as a UUID, need one evaluation.
    """
    unnamed = (
        _LOOKS_AT_WHOLE_MAPS,
        _COMPUTED_INDEX,
        _COMPUTED_DOMAIN,
        _ONE_DOMAIN,
        _DOMAINS,
    )
    rest = _NAMED_IN.sub(r"\1", expression)
    if any(pattern.search(rest) for pattern in unnamed):
        return None
    return frozenset(_WORD.findall(expression))


def with_names(device: SelectedDevice, names: frozenset[str] | None) -> SelectedDevice:
    """Return the device with only these attributes and capacities; None: with all."""
    if names is None:
        return device
    return msgspec.structs.replace(
        device,
        attributes={name: v for name, v in device.attributes.items() if _identifier(name) in names},
        versions={name: v for name, v in device.versions.items() if _identifier(name) in names},
        capacity={name: v for name, v in device.capacity.items() if _identifier(name) in names},
    )


def _identifier(name: str) -> str:
    return name.rpartition("/")[2]
