"""A flag that a command does not have: the error says which one was meant, or whose it is."""

import pytest

from draguard.__main__ import main

SECRET = "s3cret-value"
SURPLUS = "there are more words than the command takes (not repeated: one may be secret):"


def error_of(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the last line of a usage error."""
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            f"cordon node-a/0 --why {SECRET} paste",
            "draguard cordon: error: --why is not a flag of this command: write --reason",
        ),
        (
            f"cordon node-a/0 -m{SECRET} --dry_run --Reason={SECRET}",
            "draguard cordon: error: -m is not a flag of this command: write --reason; --dry_run "
            "is not a flag of this command: write --dry-run; --Reason is not a flag of this "
            "command: write --reason",
        ),
        (
            f"untaint gpu-a-1 --why={SECRET}",
            "draguard untaint: error: --why is not a flag of this command: write --reason",
        ),
        (
            f"untaint gpu-a-1 --for 4h --reason {SECRET}",
            "draguard untaint: error: --for is not a flag of this command: write --until",
        ),
        (
            f"hold gpu-a-1 --until 4h --reson {SECRET}",
            "draguard hold: error: --reson is not a flag of this command (did you mean --reason?)",
        ),
        (
            f"status --tokn {SECRET}",
            "draguard status: error: --tokn is not a flag of this command (did you mean --token?)",
        ),
        (
            "hold gpu-a-1 --until 4h --dry-run --reason x",
            "draguard hold: error: --dry-run is a flag of untaint, cordon, uncordon, cleanup, not "
            "of this command: leave it out (`draguard help hold` lists its flags)",
        ),
        (
            "explain 79 --lost",
            "draguard explain: error: --lost is a flag of policy explain, not of this command: "
            "leave it out (`draguard help explain` lists its flags)",
        ),
        (
            "policy explain --xid 79 --context prod",
            "draguard policy explain: error: --context is a flag of the commands that read a "
            "cluster, not of this command: leave it out (`draguard help policy explain` lists its "
            "flags)",
        ),
        (
            "policy --frobnicate check file",
            "draguard policy: error: --frobnicate is not a flag of this command: leave it out "
            "(`draguard help policy` lists its flags)",
        ),
        (
            f"cordon --why {SECRET} --frobnicate={SECRET} -{SECRET}",
            "draguard cordon: error: --why is not a flag of this command: write --reason; "
            "--frobnicate is not a flag of this command: leave it out (`draguard help cordon` "
            "lists its flags)",
        ),
        (
            f"status {SECRET} {SECRET}",
            f"draguard status: error: {SURPLUS} `draguard help status` shows what it takes",
        ),
        (
            f"status -{SECRET}",
            f"draguard status: error: {SURPLUS} `draguard help status` shows what it takes",
        ),
    ],
)
def test_an_error_names_the_flag_and_what_to_write(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = error_of(words, capsys)

    assert stated == sentence
    assert SECRET not in stated


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (f"remediator --token {SECRET}", "--token"),
        (f"remediator --tokn={SECRET}", "--tokn"),
        (f"remediator {SECRET}", ""),
        (f"exporter --passwd={SECRET}", "--passwd"),
        (f"exporter --token {SECRET}", "--token"),
        (f"exporter agent --token {SECRET}", "--token"),
        (f"exporter {SECRET}", "choose from"),
        (f"exporter agent {SECRET}", ""),
    ],
)
def test_exporter_and_remediator_repeat_no_value_that_they_do_not_know(
    words: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = error_of(words, capsys)

    assert named in stated
    assert SECRET not in stated


def test_help_with_a_flag_does_not_take_its_value_for_a_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["help", "--token", SECRET]) == 0
    stated = capsys.readouterr()
    assert stated.out.startswith("usage: draguard [GLOBAL FLAGS] COMMAND")
    assert SECRET not in stated.err


def test_what_follows_two_dashes_is_no_flag_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "exporter flags require --node-local" in error_of("doctor -- --dcgm=off", capsys)


def test_a_flag_of_a_command_in_front_of_it_is_sent_behind_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--node", "node-a", "incidents"]) == 2
    assert capsys.readouterr().err.startswith(
        "draguard: --node is no global flag: write the command first, then its flags\n"
    )
