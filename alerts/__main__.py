"""`python -m alerts` generates the rule files."""

import argparse
from pathlib import Path

from alerts import render
from alerts.rule import Settings

FOLDER = Path(__file__).parent / "generated"
FILES = {
    "draguard.rules.yaml": render.rules_file,
    "prometheusrule.yaml": render.prometheus_rule,
}
"""In `FOLDER`; an installation uses one of them."""


def main(arguments: list[str] | None = None) -> None:
    """Write every file, by the flags into another folder and with other settings."""
    options = _parser().parse_args(arguments)
    settings = Settings(
        runbooks=options.runbooks,
        grafana=options.grafana,
        labels=dict(options.label),
        namespace=options.namespace,
    )
    folder: Path = options.into
    folder.mkdir(parents=True, exist_ok=True)
    for name, written in FILES.items():
        (folder / name).write_text(written(settings), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    shipped = Settings()
    parser = argparse.ArgumentParser(prog="python -m alerts", description=__doc__)
    parser.add_argument("--into", type=Path, default=FOLDER, help="folder of the rule files")
    parser.add_argument("--runbooks", default=shipped.runbooks, help="URL of the runbooks' folder")
    parser.add_argument("--grafana", default=shipped.grafana, help="URL of Grafana")
    parser.add_argument(
        "--namespace", default=shipped.namespace, help="namespace of the PrometheusRule"
    )
    parser.add_argument(
        "--label",
        type=_pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="label of the PrometheusRule that your Prometheus selects; may be repeated",
    )
    return parser


def _pair(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not (key and found):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as release=monitoring")
    return key, value


if __name__ == "__main__":
    main()
