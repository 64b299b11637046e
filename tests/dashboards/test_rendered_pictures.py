"""The pictures of the documents: one of each dashboard, small enough to lie beside the sources."""

from pathlib import Path

import pytest

from tests.lab.pictures import NAMES, PICTURES, digest_in, digest_of, with_digest

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


@pytest.mark.parametrize("uid", NAMES)
def test_a_picture_shows_the_dashboard_as_it_is(uid: str) -> None:
    """Titles, units and panels: a dashboard that changed is drawn anew by `make pictures`."""
    assert digest_in(picture(uid).read_bytes()) == digest_of(uid)


def test_a_picture_without_a_digest_has_none() -> None:
    plain = b"\x89PNG\r\n\x1a\n" + b"head of 25 bytes, and then" + b"IDAT" * 40
    assert digest_in(plain) == b""
    assert digest_in(with_digest(plain, b"0" * 64)) == b"0" * 64
