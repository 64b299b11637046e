"""The rules on real promtools: each alert fires, holds, clears, and does not fire elsewhere."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts import render
from alerts.__main__ import FILES, FOLDER, main
from alerts.rule import Settings
from alerts.table import alerts
from tests.lab import promtool

CASES = Path(__file__).parent / "rules"
ALL_RULES = "rule_files: [../../../alerts/generated/draguard.rules.yaml]\n"
"""So that a case can be run by hand: `promtool test rules tests/alerts/rules/<alert>.yaml`."""
ALWAYS = "DraguardWatchdog"


@pytest.fixture(params=promtool.RELEASES)
def programs(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


class TestGenerated:
    @pytest.mark.parametrize("name", FILES)
    def test_the_files_are_those_of_the_tables(self, name: str) -> None:
        written = (FOLDER / name).read_text(encoding="utf-8")

        assert written == FILES[name](Settings()), "stale: run `make generate`"

    def test_both_files_hold_the_same_groups(self) -> None:
        plain = yaml.safe_load((FOLDER / "draguard.rules.yaml").read_text(encoding="utf-8"))
        wrapped = yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text(encoding="utf-8"))

        assert wrapped["spec"]["groups"] == plain["groups"]
        assert wrapped["kind"] == "PrometheusRule"
        assert wrapped["apiVersion"] == "monitoring.coreos.com/v1"

    def test_an_installation_has_its_own_labels_namespace_and_addresses(
        self, tmp_path: Path
    ) -> None:
        main(
            [
                f"--into={tmp_path}",
                "--label=release=monitoring",
                "--namespace=gpu",
                "--runbooks=https://wiki.test/gpu/",
                "--grafana=https://grafana.test/g/",
            ]
        )

        rule = yaml.safe_load((tmp_path / "prometheusrule.yaml").read_text(encoding="utf-8"))
        assert rule["metadata"]["labels"]["release"] == "monitoring"
        assert rule["metadata"]["namespace"] == "gpu"
        text = (tmp_path / "draguard.rules.yaml").read_text(encoding="utf-8")
        assert "https://wiki.test/gpu/DraguardGpuGone.md" in text
        assert "https://grafana.test/g/d/draguard-device?" in text
        assert "example.com" not in text

    def test_a_label_without_a_value_is_refused_by_name(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        with pytest.raises(SystemExit):
            main(["--into", str(tmp_path), "--label", "release"])

        assert "'release' is not KEY=VALUE, such as release=monitoring" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["draguard.rules.yaml"])
def test_the_rules_are_sound(programs: Path, name: str) -> None:
    assert promtool.check_rules(programs, FOLDER / name) == ""


@pytest.fixture(scope="session")
def groups(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A rule file with the alert's own group, which uses no other: a fifth of the time."""
    folder = tmp_path_factory.mktemp("groups")
    document = yaml.safe_load((FOLDER / "draguard.rules.yaml").read_text(encoding="utf-8"))
    found: dict[str, Path] = {}
    for group in document["groups"]:
        file = folder / f"{group['name']}.yaml"
        file.write_text(yaml.safe_dump({"groups": [group]}), encoding="utf-8")
        found |= {rule["alert"]: file for rule in group["rules"] if "alert" in rule}
    return found


@pytest.mark.parametrize("case", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_alert_fires_holds_clears_and_is_silent(
    programs: Path, case: Path, groups: dict[str, Path], tmp_path: Path
) -> None:
    text = case.read_text(encoding="utf-8")
    assert text.startswith(ALL_RULES)
    mine = tmp_path / case.name
    rules = groups.get(case.name.partition(".")[0], FOLDER / "draguard.rules.yaml")
    mine.write_text(text.replace(ALL_RULES, f"rule_files: [{rules}]\n", 1), encoding="utf-8")

    assert promtool.run_tests(programs, mine) == ""


@pytest.mark.parametrize("name", [alert.name for alert in alerts()])
def test_every_alert_is_seen_to_fire_to_hold_and_to_clear(name: str) -> None:
    first = _expected(name)[0]
    fired = [number for number, firing in enumerate(first) if firing]

    assert len(fired) >= 2, "it does not hold"
    if name != ALWAYS:
        assert fired[0] > 0, "it is not silent before"
        assert fired[-1] < len(first) - 1, "it does not clear"


@pytest.mark.parametrize("name", [alert.name for alert in alerts() if alert.name != ALWAYS])
def test_every_alert_is_seen_to_be_silent_where_it_does_not_apply(name: str) -> None:
    assert _silent(name), "no test in which it never fires"


def _silent(name: str) -> bool:
    return any(not any(test) for test in _expected(name))


def _expected(name: str) -> list[list[bool]]:
    """Return, for each test of an alert's own files, whether it fires at each requested time."""
    files = sorted(CASES.glob(f"{name}.yaml")) + sorted(CASES.glob(f"{name}.*.yaml"))
    assert files, f"{name} has no tests in {CASES}"
    documents: list[dict[str, Any]] = [
        yaml.safe_load(file.read_text(encoding="utf-8")) for file in files
    ]
    return [
        [bool(case["exp_alerts"]) for case in test["alert_rule_test"] if case["alertname"] == name]
        for document in documents
        for test in document["tests"]
    ]


def test_settings_change_nothing_but_addresses_and_labels() -> None:
    mine = Settings(grafana="https://grafana.test", runbooks="https://wiki.test")

    shipped = render.rules_file(Settings())
    changed = render.rules_file(mine)

    restored = changed.replace(mine.grafana, Settings().grafana)
    restored = restored.replace(mine.runbooks, Settings().runbooks)
    assert yaml.safe_load(restored) == yaml.safe_load(shipped)
