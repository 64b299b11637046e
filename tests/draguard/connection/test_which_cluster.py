"""The `kubernetes` package is loaded for commands that read a cluster, and then only its reader."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from draguard.__main__ import main
from tests.draguard.test_cli_errors import config, written

DOOR = "remediator.controller.kubernetes_login"
HEAVY = ("kubernetes", "pydantic", "requests", "oauthlib", "requests_oauthlib", "dateutil")


def loaded(*arguments: str) -> list[str]:
    """Run a command in a process of its own; returns what it has loaded of the modules above."""
    script = (
        "import json, sys\n"
        "from contextlib import redirect_stdout, suppress\n"
        "from io import StringIO\n"
        "from draguard.__main__ import main\n"
        "with redirect_stdout(StringIO()), suppress(SystemExit):\n"
        "    main(sys.argv[1:])\n"
        f"tops = {{name.partition('.')[0] for name in sys.modules}} & {{*{HEAVY!r}}}\n"
        f"print(json.dumps(sorted(tops | ({{{DOOR!r}}} & {{*sys.modules}}))))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize(
    "words",
    [
        *("--help", "help", "incidents --help", "--version", "completion bash", "no-such-command"),
        *("__complete inc", "__complete incidents -", "__complete --context=", "explain --help"),
    ],
)
def test_help_and_completion_load_nothing_that_speaks_to_a_cluster(words: str) -> None:
    assert loaded(*words.split()) == []


def test_a_policy_is_read_without_the_package(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("{}", encoding="utf-8")

    for words in (["policy"], ["policy", "check", str(policy)]):
        assert DOOR not in loaded(*words)


@pytest.mark.parametrize("login", [{"token": "t"}, {"exec": {"command": "true"}}])
def test_a_command_loads_the_reader_and_not_the_client(
    login: dict[str, object], tmp_path: Path
) -> None:
    content = config("http://127.0.0.1:1", "t")
    content["users"][0]["user"] = login
    path = written(tmp_path, "config", content)

    assert loaded("incidents", "--kubeconfig", str(path)) == [DOOR]


def test_contexts_of_all_files_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = written(tmp_path, "one", config("http://one:1", "t", "one"))
    two = written(tmp_path, "two", config("http://two:2", "t", "two"))
    monkeypatch.setenv("KUBECONFIG", f"{one}:{two}:{tmp_path / 'none'}")

    main(["__complete", "incidents", "--context", ""])

    assert capsys.readouterr().out.splitlines() == ["one", "two", ":4"]


def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        "import sys; sys.modules['kubernetes'] = None\n"
        "from draguard.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    path = written(tmp_path, "config", config("http://127.0.0.1:1", "t"))

    ran = subprocess.run(
        [sys.executable, "-c", script, "incidents", "--kubeconfig", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 2
    assert "the Python module kubernetes is missing; install draguard[cli]" in ran.stderr
