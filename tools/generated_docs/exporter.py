"""The tables of docs/exporter.md, from the tables that the exporter itself reads."""

from collections.abc import Iterator, Mapping, Sequence

from exporter.flags.dcgm_exporter import ALIASES, ENVIRONMENT, UNUSED
from exporter.flags.dcgm_exporter_keys import KEYS, Meaning
from exporter.flags.parser import short_of
from exporter.node.capabilities import CAPABILITIES
from exporter.settings import FLAGS, Settings, flag_of
from tools.generated_docs.table import Tables


def _settings() -> Iterator[Sequence[str]]:
    yield "flag", "default", "meaning"
    defaults = Settings(node_name="")
    for flag in FLAGS:
        default = getattr(defaults, flag.setting)
        default = ",".join(default) if flag.kind is tuple else default
        letter = short_of(flag)
        short = f"`-{letter}`, " if letter else ""
        shown = "" if default in ("", None, 0, ()) and default is not False else f"`{default}`"
        if flag.kind is bool:
            shown = "on" if default else "off"
        switch = f"{short}`{flag_of(flag.setting)}`"
        yield switch, shown, flag.text


def _theirs() -> Iterator[Sequence[str]]:
    yield "dcgm-exporter", "environment", "here"
    variables = {variable.setting: variable.name for variable in ENVIRONMENT}
    for flag in FLAGS:
        if flag.setting in variables and flag.setting not in {alias.setting for alias in ALIASES}:
            name = flag_of(flag.setting)
            yield f"`{name}`", f"`{variables[flag.setting]}`", f"the same: `{name}`"
    for alias in ALIASES:
        short = f"`-{alias.short}`, " if alias.short else ""
        env = variables.get(alias.setting, "")
        yield f"{short}`--{alias.flag}`", f"`{env}`" if env else "", f"`{flag_of(alias.setting)}`"
    for unused in UNUSED:
        kind = (
            "refused: " if unused.refused else "" if unused.silent else "ignored with a message: "
        )
        yield f"`--{unused.flag}`", f"`{unused.env}`", kind + unused.instead


def _needs() -> Iterator[Sequence[str]]:
    yield "need", "of", "what it enables", "how to provide it"
    for row in CAPABILITIES:
        yield row.need, row.of, row.shows, row.remedy


def _keys() -> Iterator[Sequence[str]]:
    yield "key", "schema", "here"
    for key in KEYS:
        versions = " and ".join(map(str, key.versions))
        yield f"`{key.path}`", versions, f"{_MEANINGS[key.meaning]}{key.text}"


_MEANINGS: Mapping[Meaning, str] = {
    "in force": "",
    "always so": "",
    "interval": "",
    "not done": "ignored with a message: ",
}
TABLES: Tables = {
    "settings": _settings,
    "dcgm-exporter": _theirs,
    "dcgm-exporter-keys": _keys,
    "capabilities": _needs,
}
