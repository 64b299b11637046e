"""Helm, which packs the chart, and the linter of workflows."""

from pathlib import Path

import pytest

from tests.conftest import built


@pytest.fixture(scope="session")
def helm_built(pytestconfig: pytest.Config) -> Path:
    """The folder with helm; fails when it cannot be built here."""
    return built(pytestconfig, "helm_built")


@pytest.fixture(scope="session")
def actionlint_built(pytestconfig: pytest.Config) -> Path:
    """The folder with actionlint; fails when it cannot be built here."""
    return built(pytestconfig, "actionlint_built")
