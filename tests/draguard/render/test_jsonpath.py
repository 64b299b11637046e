"""`-o jsonpath=TEMPLATE` reads as kubectl's does; the expected texts are those of kubectl 1.37."""

import pytest

from draguard.render.jsonpath import TemplateError, filled, template

DOCUMENT: dict[str, object] = {
    "kind": "List",
    "items": [
        {"name": "a", "phase": "Tainted", "pods": 2, "tags": {"x.y/z": "one"}},
        {"name": "b", "phase": "Recovered", "pods": 0, "tags": {}},
        {"name": "c", "phase": "Tainted", "pods": None},
    ],
}


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("{.kind}", "List"),
        ("{$.kind}", "List"),
        ("kind={.kind}!", "kind=List!"),
        ("{.items[*].name}", "a b c"),
        ("{.items[0].name}", "a"),
        ("{.items[-1].name}", "c"),
        ("{.items[-9].name}", ""),
        ("{.items[9].name}", ""),
        ("{.items[0:2].name}", "a b"),
        ("{.items[1:].name}", "b c"),
        ("{..name}", "a b c"),
        ("{['kind']}", "List"),
        (r"{.items[0].tags.x\.y/z}", "one"),
        ("{.items[0].tags}", '{"x.y/z": "one"}'),
        ("{.items[0].pods}", "2"),
        ("{.items[2].pods}", ""),
        ("{.nothing.at.all}", ""),
        ('{.items[?(@.phase=="Tainted")].name}', "a c"),
        ("{.items[?(@.phase != 'Tainted')].name}", "b"),
        ("{.items[?(@.pods>0)].name}", "a"),
        ("{.items[?(@.tags)].name}", "a b"),
        (
            '{range .items[*]}{.name}{"\\t"}{.phase}{"\\n"}{end}',
            "a\tTainted\nb\tRecovered\nc\tTainted\n",
        ),
    ],
)
def test_a_template_is_filled(text: str, stated: str) -> None:
    assert filled(template(text), DOCUMENT) == stated


@pytest.mark.parametrize(
    "text", ["{.a", "{.a[}", "{range .items[*]}x", "{end}", "{.items[?(@.a==b)]}", "{.a b}"]
)
def test_what_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(TemplateError):
        template(text)


def test_what_a_terminal_obeys_is_spelled_out() -> None:
    assert filled(template("{.a}"), {"a": "\x1b[2J"}) == "\\x1b[2J"


def test_a_tuple_of_a_result_is_a_list() -> None:
    assert filled(template("{.nodes[*]} {.nodes[0]}"), {"nodes": ("a", "b")}) == "a b a"
