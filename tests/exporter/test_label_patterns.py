"""Expressions of pod labels mean what they mean to dcgm-exporter, which is written in Go."""

import subprocess
import sys
import time

import pytest

from exporter.flags.parser import parse
from exporter.label_patterns import PatternError, chooser
from exporter.settings import SettingsError


@pytest.mark.parametrize(
    ("pattern", "chosen", "other"),
    [
        ("^[[:alpha:]]+$", "team", "team1"),
        (r"^\pL+$", "team", "1"),
        (r"^team\z", "team", "teams"),
        (r"\Q.io/\E", "a.io/b", "axio/b"),
        ("(?i)^TEAM$", "team", "teams"),
        ("a{,2}$", "a{,2}", "aa"),
    ],
)
def test_an_expression_chooses_what_it_chooses_in_go(pattern: str, chosen: str, other: str) -> None:
    chooses = chooser([pattern])

    assert (chooses(chosen), chooses(other)) == (True, False)


@pytest.mark.parametrize("pattern", ["(", r"a\Z", "(?=a)", r"(a)\1", "a++", "(?#x)a", "\ud800"])
def test_what_go_does_not_take_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(PatternError, match="is not a regular expression as Go and RE2"):
        chooser(["ok", pattern])
    with pytest.raises(SettingsError, match=r"^--pod-label-allow: "):
        parse(["agent", f"--pod-label-allow=ok,{pattern}"], {})


def test_no_expression_takes_long() -> None:
    begun = time.process_time()

    assert not chooser(["^(a+)+$", "^(a|aa)+$", "^(a*)*b$"])("a" * 317 + "!")

    assert time.process_time() - begun < 10.0


def test_only_an_agent_that_has_expressions_loads_re2() -> None:
    code = (
        "import sys; from exporter.flags.parser import parse; "
        "parse(['agent'], {}); parse(['sensor', '--pod-label-allow=^a'], {}); "
        "assert 're2' not in sys.modules; "
        "parse(['agent', '--pod-label-allow=^a'], {}); assert 're2' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
