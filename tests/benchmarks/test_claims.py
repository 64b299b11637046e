"""The benchmark of claims explains every pod of its fleet."""

from benchmarks.claims import measure


def test_all_pods_have_a_reason_and_all_is_measured() -> None:
    section = measure(nodes=20, waiting=30, kinds=12, looks=2)
    values = {figure.what: figure.values for figure in section.figures}

    assert values["pods without a reason after the last"] == (0,)
    assert len(values["one look of the explainer"]) == 2
    assert all(seconds > 0 for seconds in values["one `why`, computing alone"])
