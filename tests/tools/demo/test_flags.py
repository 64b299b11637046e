"""`python -m tools.demo`: its flags, and a policy that cannot be read."""

from pathlib import Path

import pytest

from tools.demo.__main__ import main


def test_help_names_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "--keep" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "stated"),
    [(None, "No such file"), ("defaults: {mode: harsh}", "harsh"), ("a: [", "not YAML")],
)
def test_a_policy_that_cannot_be_read_is_a_sentence(
    text: str | None, stated: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    if text is not None:
        policy.write_text(text, encoding="utf-8")
    assert main([f"--policy={policy}"]) == 2
    error = capsys.readouterr().err
    assert stated in error
    assert str(policy) in error
