"""A plugin of pytest: leaves out every test that needs a server which has to be built first."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if needs_a_server(getattr(item, "fixturenames", ()))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def needs_a_server(fixtures: tuple[str, ...] | list[str]) -> bool:
    """Whether fixtures, and those that they use, start what `tests/lab/builds.py` makes."""
    return any(name == "control_plane" or name.endswith("_built") for name in fixtures)
