"""A mechanism is one module: it says itself all that is to be known, and nothing else in the program names it."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from app.core.mechanism import Mechanism
from app.core.mechanisms import MECHANISMS
from tests.architecture.test_layers import APP, MODULES, imported, name

FOLDER = APP / "core" / "mechanisms"
FILES = [path for path in MODULES if path.parent == FOLDER and path.name != "__init__.py"]
OTHERS = [path for path in MODULES if path not in FILES]
NAMES = [mechanism.name for mechanism in MECHANISMS]


def literals(source: str) -> Iterator[str]:
    """Texts in the code, parts of formatted ones too; not docstrings, which may point to a mechanism as an example."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # statements that do nothing
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def named(source: str) -> set[str]:
    """The mechanisms that the code names, in a text or by an import of their modules."""
    words = {word for text in literals(source) for word in re.findall(r"[\w-]+", text)}
    modules = {module.split(".")[3] for module in imported(source) if module.startswith("app.core.mechanisms.")}
    return (words | {module.replace("_", "-") for module in modules}) & {*NAMES}


def test_every_module_of_the_folder_exports_a_mechanism_and_the_registry_has_them_all() -> None:
    exported = [import_module(f"app.core.mechanisms.{path.stem}").MECHANISM for path in FILES]
    assert all(isinstance(mechanism, Mechanism) for mechanism in exported)
    assert sorted(mechanism.name for mechanism in exported) == sorted(NAMES)
    assert {id(mechanism) for mechanism in exported} == {id(mechanism) for mechanism in MECHANISMS}


def test_names_are_unique_and_the_order_is_settled() -> None:
    assert len({*NAMES}) == len(MECHANISMS)
    assert len({mechanism.rank for mechanism in MECHANISMS}) == len(MECHANISMS)
    assert list(MECHANISMS) == sorted(MECHANISMS, key=lambda mechanism: mechanism.rank)


def test_a_module_is_named_like_its_mechanism() -> None:
    assert {path.stem.replace("_", "-") for path in FILES} == {*NAMES}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_mechanism_says_in_a_line_what_it_is_and_cites_its_theorem_in_its_note(path: Path) -> None:
    mechanism = import_module(f"app.core.mechanisms.{path.stem}").MECHANISM
    assert mechanism.version >= 1
    assert mechanism.theorem in path.read_text().split('"""')[1] + path.with_suffix(".md").read_text()
    assert re.fullmatch(r"[A-Z][^\n]*\.", mechanism.description)


@pytest.mark.parametrize("path", OTHERS, ids=name)
def test_nothing_else_names_a_mechanism(path: Path) -> None:
    assert named(path.read_text()) == set()


def test_a_name_would_be_noticed() -> None:
    first = NAMES[0]
    assert named(f"def f():\n    return x == {first!r}") == {first}
    assert named(f"x = f'take {first}, {{y}}'") == {first}
    assert named(f"from app.core.mechanisms import {first}") == {first}
    assert named(f"from app.core.mechanisms.{first} import calibrate") == {first}
    assert named(f"def f():\n    '''As {first} does.'''") == set()
