from pathlib import Path

import pytest

from tests.conftest import built


@pytest.fixture(scope="session")
def dra_oracle_built(pytestconfig: pytest.Config) -> Path:
    """Make the oracle, once per machine; a test that needs it fails where it cannot be made."""
    return built(pytestconfig, "dra_oracle_built")
