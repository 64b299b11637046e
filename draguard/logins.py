"""Logins in `curl` commands, masked: as a shell, JSON or YAML spells them. Pure.

What repeats in an expression gives nothing back, or is bounded: a long text takes no hours.
"""

import re

_QUOTE = r"\\*+[\"']"
"""In a text of JSON a quote has backslashes before it, and more in JSON within JSON."""
_PLAINLY_QUOTED = r"\"(?:[^\"\\\n]|\\.){0,1000}+\"|'[^'\n]{0,1000}+'"
_QUOTED = (
    r"(?P<run>\\++)(?P<mark>[\"'])"
    r"(?:(?!(?<!\\)(?P=run)(?P=mark))[^\n]){0,1000}+(?P=run)(?P=mark)"
    rf"|{_PLAINLY_QUOTED}"
)
_LIST_GOES_ON = r"\n(?=[ \t]*+(?:-[ \t]|\\*+[\"'\[\]]|args:))"
_COMMAND = re.compile(
    rf"\bcurl\b(?:\\++\"[^\"\n]{{0,1000}}+\"|{_PLAINLY_QUOTED}|\\\r?\n|\\.|{_LIST_GOES_ON}"
    r"|[^\n;|&]|[;|&](?![\s|&])){0,2000}+"
)
"""Up to the next command, as far as one can tell: `;` in quotes or in a URL ends none."""
_SHORT = r"-[#012346:aBfgGiIjJklLMnNOpqRsSvVZ]*+[uU]"
"""`-u` and `-U`, in one word with flags that have no value."""
_LONG = r"--(?:proxy-)?user"
_FLAG = re.compile(
    rf"(?P<opened>{_QUOTE})?(?:(?<![^\s\"',\[(])|(?<=\\[nt]))(?:{_SHORT}|{_LONG}(?=[=\s\"',\\]))"
    r"(?P<closed>(?(opened)(?P=opened)|(?!)))?"
    r"(?:(?P<listed>\s*+,\s*+)|(?P<block>[ \t]*+\n[ \t]*+-[ \t]++)|(?:=|\s|\\\r?\n|\\++n)*+)"
)
_STRUCTURE = re.compile(r"(?<!:)\\*+[\"'](?=[\s,:;\]})]|\Z)")
"""A quote that ends a text around the command. One after a colon begins a password."""
_PART_OF_WORD = re.compile(
    rf"{_QUOTED}|{_QUOTE}[^\n]*+|(?<![\"'])[^\s\"'\\]++|(?<=[\"'])[^\s\"'\\,\]}})]++|\\++(?![\"'])"
)
"""A quote without an end goes to the end of the line: the text may have been cut."""
_LINE, _ITEM = re.compile(r"[^\n]*+"), re.compile(r"[^\s,\]]*+")
_LOGIN = r"(?!\d+:\d+\Z)[^\s:/]*:(?!//)."
"""Name and password; not the IDs of a user and a group, nor a URL."""
_ALONE = re.compile(rf"{_SHORT}|{_LONG}")
_LOGIN_ALONE = re.compile(_LOGIN)
_BOTH = re.compile(rf"({_SHORT}|{_LONG}=)(?={_LOGIN})")


def without_logins(text: str, mask: str) -> str:
    """Return a text with `mask` for the login of each `curl` command."""

    def masked(whole: re.Match[str]) -> str:
        command, parts, at = whole[0], list[str](), 0
        while found := _FLAG.search(command, at):
            begin, end, stays = _login(command, found)
            parts += (command[at:begin], stays, mask if end > begin else "", stays)
            at = end
        return "".join((*parts, command[at:]))

    return _COMMAND.sub(masked, text)


def without_login(item: object, before: object, mask: str) -> object:
    """Return an item of a list without the login that it may be; `before` is the one before it."""
    if not isinstance(item, str):
        return item
    if isinstance(before, str) and _ALONE.fullmatch(before) and _LOGIN_ALONE.match(item):
        return mask
    both = _BOTH.match(item)
    return f"{both[1]}{mask}" if both else item


def _login(command: str, flag: re.Match[str]) -> tuple[int, int, str]:
    """Return where a login is, and the quote that stays around its mask."""
    begin = flag.end()
    quote = re.compile(_QUOTE).match(command, begin)
    if flag["block"]:
        whole = _LINE.match(command, begin)
    elif flag["listed"] and not quote:
        whole = _ITEM.match(command, begin)
    elif flag["opened"] and not flag["closed"] and not quote:
        within = rf"(?:(?!{re.escape(flag['opened'])})(?:\\.|.))*+"
        whole = re.compile(within).match(command, begin)
    else:
        at = begin
        while part := _PART_OF_WORD.match(command, at):
            if at > begin and _STRUCTURE.match(command, at):
                break
            at = part.end()
        return begin, at, quote[0] if quote and flag["listed"] else ""
    return begin, whole.end() if whole else begin, ""
