"""Objects as the API server writes them: null is absent."""

import msgspec
import pytest

from allocation.model.claims import Claim
from kubeapi.decoding import Decoder

META = b'"metadata": {"name": "c", "namespace": "n"}'


@pytest.mark.parametrize(
    "spec",
    [
        b"{}",
        b'{"devices": null}',
        b'{"devices": {"requests": null}}',
        b'{"devices": {"requests": []}}',
    ],
)
def test_a_claim_without_requests_is_read(spec: bytes) -> None:
    found = Decoder(Claim).decode(b"{" + META + b', "spec": ' + spec + b"}")

    assert found.spec.devices.requests == ()
    assert found.key == "n/c"


def test_dates_are_read_beside_a_null() -> None:
    raw = b'{"metadata": {"name": "c", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": null}'

    found = Decoder(Claim).decode(msgspec.Raw(raw))

    assert found.metadata.creation_timestamp is not None
    assert found.metadata.creation_timestamp.year == 2026


@pytest.mark.parametrize("raw", [b'{"metadata": {"name": 3}}', b'{"metadata": null}', b"[", b"3"])
def test_what_is_no_such_object_is_refused(raw: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, ValueError)):
        Decoder(Claim).decode(raw)
