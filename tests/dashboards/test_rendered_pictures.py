"""The pictures of the documents: one of each dashboard, small enough to lie beside the sources."""

from pathlib import Path

import pytest

from tests.lab.pictures import NAMES, PICTURES

LARGEST = 300 << 10
README = (PICTURES / "README.md").read_text(encoding="utf-8")


def picture(uid: str) -> Path:
    return PICTURES / f"{NAMES[uid]}.png"


@pytest.mark.parametrize("uid", NAMES)
def test_a_dashboard_has_a_small_picture_that_is_explained(uid: str) -> None:
    body = picture(uid).read_bytes()
    assert body.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(body) <= LARGEST
    assert f"`{picture(uid).name}`" in README


def test_there_are_no_pictures_of_dashboards_that_are_gone() -> None:
    assert {path.name for path in PICTURES.glob("*.png")} == {picture(uid).name for uid in NAMES}
