"""Command line and environment into `Settings`; the only reader of both.

dcgm-exporter's flags and environment names are taken as well, so that its
arguments go on working; those that mean nothing here are listed with what to use
instead. A flag outranks the environment, and a flag of ours dcgm-exporter's.
"""

import argparse
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

from exporter.flags.dcgm_exporter import (
    ALIASES,
    BOOLEAN,
    DEFAULT_COUNTERS,
    ENVIRONMENT,
    FALSE,
    THEIR_COUNTERS,
    TRUE,
    UNUSED,
    words,
    yes,
)
from exporter.flags.unknown_settings import unknown_variables, without_unknown
from exporter.model.device_option import SelectionError, parse_devices
from exporter.model.given import Ignored
from exporter.model.quiet_parser import QuietParser
from exporter.regular_file import read_regular
from exporter.settings import FLAGS, Flag, Settings, SettingsError, check, flag_of

ROLES = ("sensor", "agent", "run")
_OF_DCGM = ("switch_devices", "cpu_devices")
_ADD_DCGM = "add --dcgm=embedded, or the address of a host engine"
_LARGEST_FILE = 1 << 20
"""Bytes that are read of a configuration file; less than that is allowed."""


_SHORT = {
    "collectors": "f",
    "devices": "d",
    "switch_devices": "s",
    "cpu_devices": "p",
    "kubernetes": "k",
}
"""Flags of one letter, as dcgm-exporter has them."""


def parse(
    argv: Sequence[str],
    environment: Mapping[str, str] | None = None,
    is_there: Callable[[Path], bool] = Path.exists,
) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings, and a sentence for each thing given that means nothing here.

    Raises SettingsError; `--help` and unknown flags end the process. `is_there` is of files at
    dcgm-exporter's own paths.
    """
    env = os.environ if environment is None else environment
    parser = _parser()
    options = (name for action in vars(parser)["_actions"] for name in action.option_strings)
    known = frozenset(option.lstrip("-") for option in options)
    # Go takes long flags with one dash. This parser would read their letters as short flags, and
    # `-hpc-job-mapping-dir` as a call for help.
    spelled = [f"-{word}" if re.match(r"-[A-Za-z][^=]", word) else word for word in argv]
    words_kept, ignored = without_unknown(spelled, known, ROLES)
    flags = vars(parser.parse_args([_switch(word) for word in words_kept]))
    given: dict[str, Any] = {}
    for variable in ENVIRONMENT:
        if text := env.get(variable.name):
            given[variable.setting] = _read(variable.read, text, f"${variable.name}")
    for alias in ALIASES:
        if (text := flags.pop(_dest(alias.flag))) is not None:
            if alias.read is words:
                text = ",".join(text)
            given[alias.setting] = _read(alias.read, text, f"--{alias.flag}")
    ignored += [*_unused(env, flags), *unknown_variables(env, _VARIABLES)]
    # The words of a flag that was given more than once are all its words.
    given |= {
        name: tuple(chain.from_iterable(cast("list[tuple[str, ...]]", value)))
        if isinstance(value, list)
        else value
        for name, value in flags.items()
        if value is not None
    }
    given = _with_file(given, ignored)
    ignored += _without_dcgm(given, env)
    given.setdefault("node_name", env.get("NODE_NAME") or socket.gethostname())
    messages = [setting.message for setting in ignored]
    file: Path | None = given.get("collectors")
    # A counters file that dcgm-exporter's image has and this one has not.
    if file and (instead := THEIR_COUNTERS.get(file)) and not is_there(file):
        messages.append(f"{given.pop('collectors')} is not here; {instead}")
    elif file is None and not given.get("counter_rows") and is_there(DEFAULT_COUNTERS):
        given["collectors"] = DEFAULT_COUNTERS
    settings = check(Settings(**given, ignored=tuple(ignored)))
    for name in ("devices", *_OF_DCGM):
        try:
            parse_devices(getattr(settings, name))
        except SelectionError as error:
            raise SettingsError(f"{flag_of(name)}: {error}") from error
    return settings, tuple(messages)


def _without_dcgm(given: Mapping[str, Any], env: Mapping[str, str]) -> Sequence[Ignored]:
    """Return the options that choose what DCGM alone tells, where there is no DCGM."""
    usual = Settings(node_name="")
    if given.get("dcgm", usual.dcgm) != usual.dcgm:
        return ()
    found: list[Ignored] = []
    for name in _OF_DCGM:
        if given.get(name, usual.devices) != usual.devices:
            variable = next(variable.name for variable in ENVIRONMENT if variable.setting == name)
            by_env = env.get(variable) == given[name]
            source, written = ("environment", variable) if by_env else ("flag", flag_of(name)[2:])
            origin = f"${variable}" if by_env else flag_of(name)
            sentence = f"{origin} selects values of DCGM only, and --dcgm is off: {_ADD_DCGM}"
            found.append(Ignored(source, written, "NeedsDcgm", sentence))
    return found


def _with_file(given: Mapping[str, Any], ignored: list[Ignored]) -> dict[str, Any]:
    """Return what was given with what dcgm-exporter's file says besides; raises SettingsError."""
    path = given.get("config_file")
    if path is None:
        return dict(given)
    # YAML costs memory that most nodes need not spend.
    from exporter.flags import dcgm_exporter_file

    try:
        content = read_regular(path, _LARGEST_FILE, follow=True)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"--config-file: {path} cannot be read ({error}); mount it in this container, too, or "
            "leave the setting out"
        ) from error
    file = dcgm_exporter_file.parse(content, str(path))
    usual = Settings(node_name="").interval
    interval, vain = dcgm_exporter_file.one_interval(file.intervals, given.get("interval"), usual)
    ignored += [*file.ignored, *vain]
    rows = () if "collectors" in given else file.rows
    return {**file.given, **given, "interval": interval, "counter_rows": rows}


def _unused(env: Mapping[str, str], flags: dict[str, Any]) -> Sequence[Ignored]:
    found: list[Ignored] = []
    for unused in UNUSED:
        nothing = (None, "", *FALSE, unused.default)
        by_flag = flags.pop(_dest(unused.flag)) not in nothing
        by_env = env.get(unused.env) not in nothing
        if by_flag or by_env:
            name = f"--{unused.flag}" if by_flag else f"${unused.env}"
            sentence = f"{name} of dcgm-exporter has no meaning here: {unused.instead}"
            if unused.refused:
                raise SettingsError(sentence)
            if not unused.silent:
                source, given = ("flag", unused.flag) if by_flag else ("environment", unused.env)
                found.append(Ignored(source, given, "NotSupported", sentence))
    return found


def _read(read: Callable[[str], Any], text: str, name: str) -> Any:
    try:
        return read(text)
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise SettingsError(f"{name} cannot be {text!r}: {error}") from error


def _switch(word: str) -> str:
    """Turn `--name=true` and `-n=false`, which dcgm-exporter takes, into this parser's form."""
    found = re.fullmatch(rf"--?([a-z-]+)=({'|'.join((*TRUE, *FALSE))})", word)
    name = _SWITCHES.get(found[1]) if found else None
    if found is None or name is None:
        return word
    return f"--{name}" if yes(found[2]) else f"--no-{name}"


def _parser() -> argparse.ArgumentParser:
    parser = QuietParser(
        prog="draguard exporter",
        allow_abbrev=False,
        description="Watch this node's GPUs: metrics on /metrics, health as a NodeDeviceHealth.",
        epilog="dcgm-exporter's flags and environment names are taken too: see docs/exporter.md.",
    )
    version = metadata.version("draguard")
    parser.add_argument("-v", "--version", action="version", version=f"draguard exporter {version}")
    parser.add_argument("role", choices=ROLES, nargs="?", default=None)
    defaults = Settings(node_name="")
    for flag in FLAGS:
        _add_own(parser, flag, getattr(defaults, flag.setting))
    for alias in ALIASES:
        action = "append" if alias.read is words else "store"
        takes_value = alias.read not in BOOLEAN
        _add_other(parser, alias.flag, alias.short, takes_value=takes_value, action=action)
    for unused in UNUSED:
        _add_other(parser, unused.flag, unused.short, takes_value=unused.takes_value)
    return parser


def _add_own(parser: argparse.ArgumentParser, flag: Flag, default: object) -> None:
    short = short_of(flag)
    names = [f"-{short}"] * bool(short) + [flag_of(flag.setting)]
    if flag.kind is bool:
        switch = argparse.BooleanOptionalAction
        parser.add_argument(*names, dest=flag.setting, action=switch, default=None, help=flag.text)
        return
    default = ",".join(cast("tuple[str, ...]", default)) if flag.kind is tuple else default
    shown = f" (default: {default})" if default not in ("", None, 0, ()) else ""
    parser.add_argument(
        *names,
        dest=flag.setting,
        type=words if flag.kind is tuple else flag.kind,
        action="append" if flag.kind is tuple else "store",
        help=flag.text + shown,
        metavar="VALUE",
    )


def short_of(flag: Flag) -> str:
    return _SHORT.get(flag.setting, "")


def _add_other(
    parser: argparse.ArgumentParser,
    flag: str,
    short: str,
    *,
    takes_value: bool,
    action: Literal["store", "append"] = "store",
) -> None:
    names = [f"-{short}"] * bool(short) + [f"--{flag}"]
    dest, hidden = _dest(flag), argparse.SUPPRESS
    if takes_value:
        parser.add_argument(*names, dest=dest, action=action, help=hidden)
        return
    parser.add_argument(*names, dest=dest, action="store_const", const="true", help=hidden)
    off = f"--no-{flag}"
    parser.add_argument(off, dest=dest, action="store_const", const="false", help=hidden)


def _dest(flag: str) -> str:
    return f"dcgm-exporter {flag}"


_VARIABLES = frozenset(
    (*(variable.name for variable in ENVIRONMENT), *(unused.env for unused in UNUSED))
)

_SWITCHES: Mapping[str, str] = {
    name: long
    for long, short in (
        *((flag_of(flag.setting)[2:], short_of(flag)) for flag in FLAGS if flag.kind is bool),
        *((alias.flag, alias.short) for alias in ALIASES if alias.read in BOOLEAN),
        *((unused.flag, unused.short) for unused in UNUSED if not unused.takes_value),
    )
    for name in (long, short)
    if name
}
"""Flags that take no value, or true and false after an equals sign, by both their names."""
