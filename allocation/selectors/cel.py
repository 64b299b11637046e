"""The door to `cel_expr_python`: CEL expressions over one device, as Kubernetes 1.37 does it.

The environment is that of k8s.io/dynamic-resource-allocation/cel v0.37.1 as far as this library has
it. A stored expression has been accepted by an API server, so what does not compile here is only
not known here. Where Kubernetes evaluates otherwise, the answer is `NotEvaluated`, never a guess:

- functions of URLs, IP addresses, CIDRs and named formats, `indexOf` of a list, `optional.unwrap`;
- `device` as a whole, and all of its domains where the expression also names one it lacks;
- more than 10,000 iterations (Go: 20,000), and values of no type that a device has.

An evaluation holds the GIL and has no limit of memory, and each call of a function of ours leaks up
to a kilobyte. So only `worker` loads this, in a process that can be killed.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from cel_expr_python import cel
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from allocation.selectors.answers import MATCHES, NO_MATCH, Answer, fails, not_evaluated
from allocation.selectors.comparisons import compares_otherwise
from allocation.selectors.device import SelectedDevice, looks_at_domains, split_name
from allocation.selectors.kubernetes_functions import (
    FAILURES,
    OVERLOADS,
    Message,
    Overload,
    UnsupportedError,
    quantity_of,
    semver_of,
)
from allocation.selectors.quantity import OddQuantityError

Maps = dict[str, dict[str, Any]]


_EXTENSIONS = """
extensions:
- {name: strings, version: 2}
- {name: lists}
- {name: sets}
- {name: two-var-comprehensions}
- {name: optional}
- {name: bindings}
"""
_FAILS = "it fails: "
"""Before what a function of ours raises, as Kubernetes does."""
_KNOWN_FAILURE = re.compile(
    rf"(?:NOT_FOUND|OUT_OF_RANGE): |\w+: (?:No matching overloads|divide by zero|{_FAILS})"
)
"""How an evaluation's error begins that Kubernetes reports as one, too; it may quote anything."""
_LITERAL = re.compile(r"""(?<![A-Za-z0-9_])["']([^"'\\\n]*)["']""")
_QUANTITIES = re.compile(r"""quantity\(\s*["']([^"']*)["']""")
_LONGEST = 200
"""Characters of an error that are kept: answers are kept by the hundred thousand."""
_INTEGER = re.compile(r"\b(?:as|is)Integer\b")
_PLAIN = re.compile(r"[+-]?[0-9]{1,15}(?:Ki|Mi|Gi|Ti|k|M|G|T)?")
"""A quantity that Go stores as an integer."""


def _messages() -> tuple[Any, dict[str, Any]]:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(
        name="draguard_selectors.proto", package="kubernetes", syntax="proto3"
    )
    for name in ("Quantity", "Semver"):
        file.message_type.add(name=name).field.add(name="text", number=1, type=9, label=1)
    pool.Add(file)
    made = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"kubernetes.{name}"))
        for name in ("Quantity", "Semver")
    }
    return pool, made


_POOL, _CLASSES = _messages()
_T = cel.Type
_QUANTITY, _SEMVER = _T("kubernetes.Quantity"), _T("kubernetes.Semver")
_TYPES: Mapping[str, Any] = {
    "quantity": _QUANTITY,
    "semver": _SEMVER,
    "string": _T.STRING,
    "int": _T.INT,
    "double": _T.DOUBLE,
    "bool": _T.BOOL,
    "list": _T.List(_T.DYN),
    "strings": _T.List(_T.STRING),
    "any": _T.DYN,
}


def _to_cel(value: Any) -> Any:
    if isinstance(value, Message):
        return _CLASSES[value.kind.capitalize()](text=value.text)
    return list(map(_to_cel, cast("list[Any]", value))) if isinstance(value, list) else value


def _from_cel(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_from_cel, cast("list[Any]", value)))
    descriptor = getattr(value, "DESCRIPTOR", None)
    return Message(descriptor.name.lower(), value.text) if descriptor else value


_unsupported: list[str] = []
"""What functions met in this evaluation that they cannot compute, or for which memory did not
suffice. Of two errors under `||` or `&&` the library gives one."""


def _declarations(overloads: Iterable[Overload]) -> list[Any]:
    """Return the functions; of overloads of equal kinds the first one has the implementation.

    The library dispatches by kinds, and all messages are one kind.
    """
    by_name: dict[str, list[Any]] = {}
    taken: set[tuple[object, ...]] = set()
    for number, each in enumerate(overloads):
        kinds = (
            each.function,
            *("message" if kind in {"quantity", "semver"} else kind for kind in each.takes),
        )
        call = None if kinds in taken else _callback(each.call)
        taken.add(kinds)
        given: dict[str, Any] = {} if call is None else {"impl": call}
        by_name.setdefault(each.function, []).append(
            cel.Overload(
                f"draguard_{each.function}_{number}",
                _TYPES[each.gives],
                [_TYPES[kind] for kind in each.takes],
                is_member=each.is_member,
                **given,
            )
        )
    return [cel.FunctionDecl(name, found) for name, found in by_name.items()]


def _callback(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function, updated=())
    def call(*given: Any) -> Any:
        try:
            return _to_cel(function(*map(_from_cel, given)))
        except (UnsupportedError, OddQuantityError) as error:
            _unsupported.append(str(error))
            raise TypeError(str(error)) from None
        except FAILURES as error:
            raise TypeError(f"{_FAILS}{error}") from None
        except Exception as error:
            _unsupported.append(type(error).__name__)
            raise

    return call


_DOMAINS = _T.Map(_T.STRING, _T.Map(_T.STRING, _T.DYN))
_ENVIRONMENT = cel.NewEnv(
    descriptor_pool=_POOL,
    config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
    variables={
        "device.driver": _T.STRING,
        "device.allowMultipleAllocations": _T.BOOL,
        "device.attributes": _DOMAINS,
        "device.capacity": _T.Map(_T.STRING, _T.Map(_T.STRING, _QUANTITY)),
    },
    functions=_declarations(OVERLOADS),
)


class Selector:
    """One expression, compiled where that is possible."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._literals = frozenset(_LITERAL.findall(expression))
        self._looks_at_all = looks_at_domains(expression)
        self._compiled: Any = None
        self._why = ""
        try:
            self._compiled = _ENVIRONMENT.compile(expression)
        except Exception as error:  # noqa: BLE001 - the library raises RuntimeError, and others
            self._why = _first_line(error)

    def answer(self, device: SelectedDevice) -> Answer:
        """Return what the expression says of a device."""
        if why := self._why or self._differs(device):
            return not_evaluated(why)
        try:
            variables = _variables(device)
        except (ValueError, OddQuantityError) as error:
            return not_evaluated(f"the device has what Kubernetes accepts nowhere: {error}")
        attributes, capacity = variables["device.attributes"], variables["device.capacity"]
        # Kubernetes has an empty map for each domain that a device lacks.
        missing = (self._literals | {device.driver}) - (attributes.keys() & capacity.keys())
        if missing and self._looks_at_all:
            return not_evaluated("it looks at all domains, and names one that the device lacks")
        for name in missing:
            attributes.setdefault(name, {})
            capacity.setdefault(name, {})
        _unsupported.clear()
        try:
            answer = _answer_of(self._compiled.eval(data=variables))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - the library raises RuntimeError, and others
            return not_evaluated(_first_line(error))
        failed = answer.says not in {"Matches", "NoMatch"}
        return (
            not_evaluated(f"not known here: {_unsupported[0]}")
            if failed and _unsupported
            else answer
        )

    def _differs(self, device: SelectedDevice) -> str:
        """Return why Kubernetes may answer otherwise than this library does, "" for nothing."""
        versions, sizes, others = (
            tuple(split_name(name, "")[1] for name in names)
            for names in (device.versions, device.capacity, device.attributes)
        )
        if compares_otherwise(self._expression, versions, sizes, others):
            return "it compares a version or a quantity, which may be an error in Kubernetes"
        quantities = (*device.capacity.values(), *_QUANTITIES.findall(self._expression))
        if _INTEGER.search(self._expression) and not all(map(_PLAIN.fullmatch, quantities)):
            return "whether a quantity is an integer depends on how it is written"
        return ""


def _answer_of(found: Any) -> Answer:
    """Return the answer of what an evaluation gave. The library's errors are values."""
    if found.type() == _T.BOOL:
        return MATCHES if found.plain_value() else NO_MATCH
    why = str(found.plain_value())
    known = found.type() == _T.ERROR and _KNOWN_FAILURE.match(why)
    # It quotes what the expression looks up, which may be long and of each device another.
    why = why[:_LONGEST]
    return fails(why) if known else not_evaluated(f"{found.type().name()}: {why}")


def _variables(device: SelectedDevice) -> dict[str, Any]:
    attributes: Maps = {}
    capacity: Maps = {}
    for name, value in device.attributes.items():
        _put(attributes, device.driver, name, list(value) if isinstance(value, tuple) else value)
    for name, version in device.versions.items():
        many = isinstance(version, tuple)
        value = list(map(semver_of, version)) if many else semver_of(version)
        _put(attributes, device.driver, name, value)
    for name, text in device.capacity.items():
        _put(capacity, device.driver, name, quantity_of(text))
    return {
        "device.driver": device.driver,
        "device.allowMultipleAllocations": device.shared,
        "device.attributes": attributes,
        "device.capacity": capacity,
    }


def _put(maps: Maps, driver: str, name: str, value: Any) -> None:
    domain, identifier = split_name(name, driver)
    maps.setdefault(domain, {})[identifier] = _to_cel(value)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:_LONGEST]
