"""The store maps rows to values: no row type is seen above it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "app"
STORE = APP / "store"
ABOVE = sorted(path for path in APP.rglob("*.py") if STORE not in path.parents)
MODULES = sorted(path for path in STORE.glob("*.py") if path.name != "tables.py")

_ROW = re.compile(r"\b\w+Row\b")


def name(path: Path) -> str:
    return str(path.relative_to(APP))


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What a module imports from the store: full names, and what it calls them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("app.store."):
            yield from ((f"{node.module}.{alias.name}", alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, alias.asname or alias.name) for alias in node.names if "app.store" in alias.name)


def used(source: str) -> set[str]:
    """Full names of what a module uses of the store: modules, their members, and the members of what it imports."""
    tree = ast.parse(source)
    names = {ours: full for full, ours in imported(tree)}
    found = set(names.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in names:
            found.add(f"{names[ast.unparse(node.value)]}.{node.attr}")
    return found


def annotated_with_rows(source: str) -> Iterator[str]:
    """Functions, and classes by their fields and methods, that take, hold or give a row."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and any(map(_ROW.search, _annotations(node))):
            yield node.name


def _annotations(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg | ast.AnnAssign) and inner.annotation is not None:
            yield ast.unparse(inner.annotation)
        elif isinstance(inner, ast.FunctionDef) and inner.returns is not None:
            yield ast.unparse(inner.returns)


@pytest.mark.parametrize("path", ABOVE, ids=name)
def test_no_module_above_the_store_imports_the_tables(path: Path) -> None:
    assert [full for full in used(path.read_text()) if full.startswith("app.store.tables")] == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_what_is_used_above_the_store_takes_and_gives_no_rows(path: Path) -> None:
    above = set().union(*(used(module.read_text()) for module in ABOVE))
    with_rows = {f"app.store.{path.stem}.{function}" for function in annotated_with_rows(path.read_text())}
    assert with_rows & above == set()


def test_the_rules_would_notice() -> None:
    assert "app.store.tables.SketchRow" in used("def late():\n    from app.store.tables import SketchRow")
    assert "app.store.tables" in used("from app.store import tables")
    assert "app.store.ledger.get" in used("from app.store import ledger as books\nbooks.get(session)")
    assert "app.store.ledger.get" in used("from app.store.ledger import get")
    assert "app.store.ledger.get" in used("import app.store.ledger\napp.store.ledger.get(session)")
    assert list(annotated_with_rows("def get(name: str) -> list['SketchRow']: ...")) == ["get"]
    assert list(annotated_with_rows("def save(row: SketchRow | None) -> None: ...")) == ["save"]
    assert list(annotated_with_rows("class Held:\n    row: LedgerRow")) == ["Held"]
    assert list(annotated_with_rows("def get(name: str) -> SketchRecord: ...")) == []
