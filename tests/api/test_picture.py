"""The picture of a histogram: true to the numbers, well-formed whatever the keys are, readable without eyes."""

from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from app.api.picture import svg
from app.core.histogram import Bar, ErrorBound, Snapshot

_SPACE = "{http://www.w3.org/2000/svg}"
_SNAPSHOT = Snapshot(
    id="0" * 32,
    sketches=["page-views"],
    created_at=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
    mechanism="pmg",
    theorem="thm:final_theorem",
    epsilon="0.5",
    delta="1e-6",
    beta="0.05",
    parameters={"threshold": 40},
    error_bound=ErrorBound(below=22, above=24, sketch=1, unlisted=55),
    charged=[],
    remaining=[],
)
_BARS = [Bar("b", 150, 130, 160), Bar("a", 100, 80, 200)]


def _drawn(*bars: Bar) -> ElementTree.Element:
    return ElementTree.fromstring(svg(_SNAPSHOT, bars or _BARS, "count"))


def _of_class(drawing: ElementTree.Element, kind: str) -> list[dict[str, str]]:
    return [element.attrib for element in drawing.iter() if element.get("class") == kind]


def _texts(drawing: ElementTree.Element) -> list[str | None]:
    return [element.text for element in drawing.iter(f"{_SPACE}text")]


def test_bars_whiskers_and_threshold_stand_where_the_numbers_are() -> None:
    drawing = _drawn()
    assert [bar["width"] for bar in _of_class(drawing, "bar")] == ["75.0%", "50.0%"]  # of 200, the largest upper end
    spans = [(line["x1"], line["x2"]) for line in _of_class(drawing, "whisker") if "%" in line["x1"]]
    assert spans[:3] == [("65.0%", "80.0%"), ("65.0%", "65.0%"), ("80.0%", "80.0%")]  # the span, and a cap at each end
    assert spans[3] == ("40.0%", "100.0%")
    assert _of_class(drawing, "cut")[0]["x1"] == "20.0%"
    assert "cut: counts below 40 are not reported" in _texts(drawing)
    assert "true counts, all with probability 0.95" in _texts(drawing)


def test_an_unknown_upper_end_has_no_cap() -> None:
    drawing = _drawn(Bar("a", 100, 80, None))
    spans = [(line["x1"], line["x2"]) for line in _of_class(drawing, "whisker") if "%" in line["x1"]]
    assert spans == [("80.0%", "100.0%"), ("80.0%", "80.0%")]


def test_it_has_a_title_and_a_description() -> None:
    drawing = _drawn()
    assert drawing.attrib["role"] == "img"
    named = [element.attrib["id"] for element in drawing if element.tag in (f"{_SPACE}title", f"{_SPACE}desc")]
    assert drawing.attrib["aria-labelledby"].split() == named
    assert drawing.findtext(f"{_SPACE}title") == "Private histogram of page-views"
    assert drawing.findtext(f"{_SPACE}desc") == (
        "2 noisy counts, the largest first: b: 150; a: 100. Counts below 40 are not reported."
    )


def test_bars_come_in_the_order_in_which_they_are_given_and_the_description_names_it() -> None:
    drawing = ElementTree.fromstring(svg(_SNAPSHOT, _BARS[::-1], "key"))
    assert [bar["width"] for bar in _of_class(drawing, "bar")] == ["50.0%", "75.0%"]
    assert "in the order of their keys: a: 100; b: 150." in (drawing.findtext(f"{_SPACE}desc") or "")


@pytest.mark.parametrize("key", ["<script>1</script>", "]]>", "\"'&", "שלום", "\u202eoverride", "🙂"])
def test_a_key_is_shown_as_it_is(key: str) -> None:
    drawing = _drawn(Bar(key, 100, 80, 120))
    assert key in _texts(drawing)
    assert drawing.find(f".//{_SPACE}script") is None


@pytest.mark.parametrize("key", ["\0", "\x1b", "\ufffe"])
def test_what_xml_cannot_hold_is_replaced(key: str) -> None:
    assert "a\ufffdb" in _texts(_drawn(Bar(f"a{key}b", 100, 80, 120)))


def test_a_long_key_is_cut_and_so_are_more_than_a_hundred_bars() -> None:
    assert "x" * 63 + "…" in _texts(_drawn(Bar("x" * 512, 100, 80, 120)))
    assert len(_of_class(_drawn(*(Bar(str(count), count, 1, None) for count in range(1, 300))), "bar")) == 100


def test_an_empty_histogram_has_a_picture_too() -> None:
    drawing = ElementTree.fromstring(svg(_SNAPSHOT, [], "count"))
    assert "No key to show" in _texts(drawing)
    assert _of_class(drawing, "bar") == []
