"""The login of a `curl` command is masked, however a shell, JSON or YAML spells it."""

import json
import math
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draguard.redaction import MASK, redacted, redacted_object

SECRET = "hunter2-S3"
LOGIN = f"admin:{SECRET}"
IN_A_SHELL = f'curl -u "{LOGIN}" https://x'
SPELLINGS = {
    "-u": (f"curl -u {LOGIN} https://x", f"curl -u {MASK} https://x"),
    "-uNAME": (f"curl -u{LOGIN} x", f"curl -u{MASK} x"),
    "--user": (f"curl --user {LOGIN} x", f"curl --user {MASK} x"),
    "--user=": (f"curl --user={LOGIN} x", f"curl --user={MASK} x"),
    "-sSu": (f"curl -sSu {LOGIN} x", f"curl -sSu {MASK} x"),
    "-4u": (f"curl -4u {LOGIN} x", f"curl -4u {MASK} x"),
    "-sS4u": (f"curl -sS4u {LOGIN} x", f"curl -sS4u {MASK} x"),
    "-U": (f"curl -U {LOGIN} x", f"curl -U {MASK} x"),
    "--proxy-user": (f"curl --proxy-user {LOGIN} x", f"curl --proxy-user {MASK} x"),
    "a path": (f"/usr/bin/curl -u {LOGIN} x", f"/usr/bin/curl -u {MASK} x"),
    "double quotes": (f'curl -u "{LOGIN} y" x', f"curl -u {MASK} x"),
    "single quotes": (f"curl -u '{LOGIN} y' x", f"curl -u {MASK} x"),
    "a quoted password": (f'curl -u admin:"{SECRET}" x', f"curl -u {MASK} x"),
    "a quoted name": (f"curl -u 'admin':{SECRET} x", f"curl -u {MASK} x"),
    "both quoted": (f'curl -u "admin":"{SECRET}" x', f"curl -u {MASK} x"),
    "both quoted singly": (f"curl -u 'admin':'{SECRET}' x", f"curl -u {MASK} x"),
    "quotes in the middle": (f"curl -u admin:a'{SECRET}'b x", f"curl -u {MASK} x"),
    "a quote in quotes": (f'curl -u "admin:a\\"{SECRET}" x', f"curl -u {MASK} x"),
    "a quoted word": (f'curl "--user=admin:a {SECRET}" x', f'curl "--user={MASK}" x'),
    "cut": (f'curl -u "admin:a {SECRET}', f"curl -u {MASK}"),
    "a comma": (f"curl -u admin:a,{SECRET} x", f"curl -u {MASK} x"),
    "a next line": (f"curl -fsSL \\\n  -u {LOGIN} \\\n  x", f"curl -fsSL \\\n  -u {MASK} \\\n  x"),
    "a next line after it": (f"curl -u \\\n  {LOGIN} x", f"curl -u \\\n  {MASK} x"),
    "a URL with ;": (f"curl 'https://x?a=1;b' -u {LOGIN}", f"curl 'https://x?a=1;b' -u {MASK}"),
    "a URL with |": (f"curl 'https://x?a| b' -u {LOGIN}", f"curl 'https://x?a| b' -u {MASK}"),
    "a header": (
        f'curl -H "Accept: a; q=1" -u {LOGIN}',
        f'curl -H "Accept: a; q=1" -u {MASK}',
    ),
    "JSON": (json.dumps(["-c", IN_A_SHELL]), f'["-c", "curl -u {MASK} https://x"]'),
    "JSON, at its end": (
        json.dumps({"a": f"curl -u {LOGIN}", "n": 1}),
        f'{{"a": "curl -u {MASK}", "n": 1}}',
    ),
    "JSON, at its end, quoted": (
        json.dumps({"a": f'curl -u "{LOGIN}"', "n": 1}),
        f'{{"a": "curl -u {MASK}", "n": 1}}',
    ),
    "JSON, a header": (
        json.dumps([f'curl -H "Accept: a; q=1" -u {LOGIN}', "y"]),
        f'["curl -H \\"Accept: a; q=1\\" -u {MASK}", "y"]',
    ),
    "JSON, a next line": (
        json.dumps([f"curl -s \\\n -u {LOGIN}"]),
        f'["curl -s \\\\\\n -u {MASK}"]',
    ),
    "JSON in JSON": (
        json.dumps(json.dumps(["-c", IN_A_SHELL])),
        f'"[\\"-c\\", \\"curl -u {MASK} https://x\\"]"',
    ),
    "a list of JSON": (
        json.dumps(["curl", "-u", f"{LOGIN} y", "x"], separators=(",", ":")),
        f'["curl","-u","{MASK}","x"]',
    ),
    "a list of JSON in JSON": (
        json.dumps(json.dumps(["curl", "--user", LOGIN, "x"])),
        f'"[\\"curl\\", \\"--user\\", \\"{MASK}\\", \\"x\\"]"',
    ),
    "a list of JSON, laid out": (
        json.dumps(["curl", "-u", LOGIN, "x"], indent=2),
        json.dumps(["curl", "-u", MASK, "x"], indent=2),
    ),
    "a list of JSON, in one": (
        json.dumps(["curl", f'--user=admin:a "{SECRET}', "x"]),
        f'["curl", "--user={MASK}", "x"]',
    ),
    "a list of YAML": (f"- curl\n- -u\n- {LOGIN} y\n- x", f"- curl\n- -u\n- {MASK}\n- x"),
    "a list of YAML, --user": (
        f"  - curl\n  - --user\n  - '{LOGIN}'\n",
        f"  - curl\n  - --user\n  - {MASK}\n",
    ),
    "a list of YAML, in one": (f"- curl\n- --user={LOGIN}\n- x", f"- curl\n- --user={MASK}\n- x"),
    "arguments of YAML": (
        f"command:\n- curl\nargs:\n- -u\n- {LOGIN}\n",
        f"command:\n- curl\nargs:\n- -u\n- {MASK}\n",
    ),
    "a list of YAML in brackets": (
        f"command: [curl, -u, {LOGIN}, https://x]",
        f"command: [curl, -u, {MASK}, https://x]",
    ),
    "brackets and quotes": (f"[curl, -u, '{LOGIN}', x]", f"[curl, -u, '{MASK}', x]"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_login_is_masked_in_every_spelling(spelling: str) -> None:
    command, masked = SPELLINGS[spelling]

    assert redacted(command) == masked
    assert SECRET not in redacted(f"a line before\n{command}\na line after")


@pytest.mark.parametrize(
    "text",
    [
        "curl -v https://a/x; ls -u name:other",
        "curl -v https://a/x && ls -u name:other",
        "curl -v https://a/x\nls -u name:other",
        "curl --user-agent draguard https://a/x",
        "curl -XPUT https://a/x",
        "sort -u a:b",
    ],
)
def test_what_is_no_login_of_curl_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("words", "masked"),
    [
        (["curl", "-u", LOGIN], ["curl", "-u", MASK]),
        (["-sSU", LOGIN, "x"], ["-sSU", MASK, "x"]),
        (["--proxy-user", f"{LOGIN} y"], ["--proxy-user", MASK]),
        (["--user=admin:a b", 1], [f"--user={MASK}", 1]),
        ([f"-u{LOGIN}"], [f"-u{MASK}"]),
        (["--user", "1000:1000", "-u", "https://x", "--user=1:1"], None),
    ],
)
def test_the_words_of_a_container_are_masked_as_well(
    words: list[object], masked: list[object] | None
) -> None:
    """`curl` may be in its `command`, and the rest in its `args`."""
    assert redacted_object({"args": words}) == {"args": masked or words}


LONG: dict[str, Callable[[int], str]] = {
    "curl": lambda n: "curl " * n,
    "a long word": lambda n: "curl -" + "a" * 5 * n,
    "flags": lambda n: "curl -uu" * n,
    "spaces": lambda n: "curl -u" + " " * 5 * n,
    "quotes": lambda n: 'curl -u "' * n,
    "escaped quotes": lambda n: "curl " + '\\"' * 3 * n,
    "backslashes": lambda n: "curl -u " + "\\" * 3 * n,
    "deeper and deeper": lambda n: (
        "curl -u a:" + "".join("\\" * deep + '"' for deep in range(1, math.isqrt(140 * n)))
    ),
}


def seconds(text: str) -> float:
    began = time.process_time()
    redacted(text)
    return time.process_time() - began


@pytest.mark.parametrize("name", LONG)
def test_four_times_the_text_takes_about_four_times_as_long(name: str) -> None:
    """And not sixteen times. What another process takes from us is in both times, or repeated."""
    text = LONG[name]
    ratios = (seconds(text(60_000)) / seconds(text(15_000)) for _ in range(3))

    assert any(ratio < 9 for ratio in ratios)


PIECES = ("curl", " ", "-u", "--user", "=", '"', "'", "\\", "\n", ",", "a:b", "[", "]", "- ", "x")


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_any_text_can_be_masked(text: str) -> None:
    assert redacted(redacted(f"curl {text}")).startswith("curl")
