"""A stranger can walk through `app`: public names say what they promise, and nothing is long or cut to pieces."""

from pathlib import Path

import pytest

from tests.architecture.house import House, measured

LEAST_DOCUMENTED = 0.95
MOST_USED_ONCE = 0.08
MOST_CALLED_ONCE = 0.055
LONGEST_FILE = 320
LONGEST_FUNCTION = 45

SAMPLE = '''
class Shape:
    def area(self):
        """What it covers."""

class Square(Shape):
    """A shape."""

    def area(self):
        return _squared(self.side)

    def told(self):
        # A comment is no line.
        first = self.area() + self.area()

        second = first
        third = second
        return third

def _squared(side):
    """Private, so the other file's `_squared` is another."""
    return side * side

def twice(side):
    return side + side

def _handler():
    """Handed over as a value."""

listeners = [_handler]

@staticmethod
def decorated():
    return twice(twice(1))
'''


@pytest.fixture(scope="module")
def house() -> House:
    return measured()


def test_public_names_say_what_they_promise(house: House) -> None:
    assert house.documented_share >= LEAST_DOCUMENTED, [each.place for each in house.undocumented]


def test_few_helpers_are_short_and_used_once(house: House) -> None:
    assert house.used_once_share <= MOST_USED_ONCE, [each.place for each in house.used_once]
    assert house.called_once_share <= MOST_CALLED_ONCE, [each.place for each in house.called_once]


def test_no_file_is_long(house: House) -> None:
    assert {path: lines for path, lines in house.file_lengths.items() if lines > LONGEST_FILE} == {}


def test_no_function_is_long(house: House) -> None:
    assert {place: lines for place, lines in house.function_lengths.items() if lines > LONGEST_FUNCTION} == {}


def test_the_measure_would_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "sample_house"
    package.mkdir()
    (package / "shapes.py").write_text(SAMPLE)
    (package / "other.py").write_text("def _squared():\n    return 1\n\nboth = _squared() + _squared()\n")
    monkeypatch.syspath_prepend(tmp_path)
    sample = measured(package)
    assert [each.names for each in sample.undocumented] == [("Shape",), ("Square", "told"), ("twice",), ("decorated",)]
    assert [each.names for each in sample.used_once] == [("_squared",), ("_handler",)]
    assert [each.place for each in sample.called_once] == ["sample_house/shapes.py:20 _squared"]
    assert sample.function_lengths["sample_house/shapes.py:12 Square.told"] == 4
    assert sample.documented_share == pytest.approx(3 / 7)
    assert sample.used_once_share == pytest.approx(2 / 8)
    assert sample.called_once_share == pytest.approx(1 / 8)
