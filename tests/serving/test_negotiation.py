"""Which form of the page scrapers get, by the headers that real ones send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.negotiation import Exposition, exposition, wants_gzip

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;"
    "escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
ONLY_OPENMETRICS = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,*/*;q=0.5"
"""Of a Prometheus whose `scrape_protocols` are this one alone."""
PROTOBUF_FIRST = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (PROMETHEUS_2, Exposition.TEXT),
        (PROMETHEUS_3, Exposition.TEXT),
        (ONLY_OPENMETRICS, Exposition.OPENMETRICS),
        (PROTOBUF_FIRST, Exposition.TEXT),
        ("", Exposition.TEXT),
        ("*/*", Exposition.TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Exposition.TEXT),
        ("application/openmetrics-text", Exposition.OPENMETRICS),
        ("Application/OpenMetrics-Text; Version=1.0.0", Exposition.OPENMETRICS),
        ('application/openmetrics-text; version="1.0.0"', Exposition.OPENMETRICS),
        ("application/openmetrics-text;version=0.0.1", Exposition.TEXT),
        ("application/openmetrics-text;version=2.0.0", Exposition.TEXT),
        ("application/openmetrics-text;q=0", Exposition.TEXT),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.8", Exposition.TEXT),
        ("text/plain;q=0.2,application/openmetrics-text;q=0.8", Exposition.TEXT),
        ("text/plain;q=0,application/openmetrics-text;q=0.8", Exposition.OPENMETRICS),
        ("text/*;q=0.1,application/openmetrics-text", Exposition.TEXT),
        ("text/plain,application/openmetrics-text", Exposition.TEXT),
        ("application/openmetrics-text,text/plain", Exposition.TEXT),
        ("text/plain;version=1.0.0,application/openmetrics-text;q=0.1", Exposition.OPENMETRICS),
        ("application/openmetrics-text,*/*", Exposition.OPENMETRICS),
        ("image/png", Exposition.TEXT),
        (";;;,,=,q=,;q=x", Exposition.TEXT),
        ("application/openmetrics-text;q=7", Exposition.TEXT),
        ("application/openmetrics-text;q=nan", Exposition.TEXT),
    ],
)
def test_the_text_form_is_chosen_by_the_accept_header(accept: str, expected: Exposition) -> None:
    assert exposition(accept) is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("gzip", True),
        ("GZIP;q=0.5", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("*", True),
        ("x-gzip", True),
        ("", False),
        ("identity", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("*;q=1, gzip;q=0", False),
        ("identity;q=1, gzip;q=0.5", False),
        ("identity;q=0.5, gzip;q=1.0", True),
        ("gzip;q=much", False),
    ],
)
def test_gzip_only_when_it_is_welcome(header: str, expected: bool) -> None:
    assert wants_gzip(header) is expected


@given(st.text())
def test_any_header_has_an_answer(header: str) -> None:
    assert exposition(header) in Exposition
    assert wants_gzip(header) in (True, False)
