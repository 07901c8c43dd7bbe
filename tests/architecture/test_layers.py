"""Imports point downwards, mechanisms come with their proofs, modules say what they are for."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "app"
MODULES = sorted(APP.rglob("*.py"))
MECHANISMS = [path for path in MODULES if path.parent.name == "mechanisms" and path.name != "__init__.py"]

# api -> server -> usecases -> store -> core: skipping downwards is fine, but `api` and `server` never see the database.
MAY_IMPORT = {
    "core": {"core"},
    "settings": {"core"},
    "refusals": {"core"},
    "store": {"store", "refusals", "core"},
    "usecases": {"usecases", "store", "refusals", "core"},
    "server": {"server", "usecases", "refusals", "core"},  # the HTTP edge: knows no route
    "api": {"api", "server", "usecases", "refusals", "core"},
    "client": {"client"},  # speaks HTTP like anybody else
}
SEE_EVERYTHING = {"main", "cli", "doctor"}

PARTS = ["What the caller must ensure", "What is promised", "Why", "What is not covered"]


def cited(text: str) -> set[str]:
    return set(re.findall(r"\b(?:alg|cor|corol|def|fact|lem|thm):[A-Za-z][\w-]*", text))


# Of Lebeda & Tětek, "Better Differentially Private Approximate Histograms and Heavy Hitters using the Misra-Gries
# Sketch" (arXiv:2301.02457), as its source has them.
LABELS = cited(
    """
    alg:MG alg:MG-pure-DP alg:PMG alg:user-level-sketch
    cor:PMG-multiple-items-general-setting cor:eps-close cor:merged-user-level corol:merged-sensitivity
    def:differential-privacy def:l-sensitivities def:lappdfcdf-dpmg def:neighborhood fact:MG-error
    lem:PMG-error lem:PMG-multiple-items lem:PMG-privacy lem:gaussian-sparse-easy-version lem:group-privacy
    lem:l2sens-MG-sketch lem:merge-step-sensitivity lem:nb-cases lem:nonsupport-delta
    lem:pure-dp-postprocessing-error lem:pure-dp-postprocessing-sensitivity lem:pure-dp-user-level
    lem:user-level-merge-error lem:user-level-sketch-error lem:user-level-sketch-sensitivity lem:vectors_inequality
    thm:final_theorem thm:sparse-gaussian thm:user-level
    """
)


def name(path: Path) -> str:
    return str(path.relative_to(APP))


def layer(path: Path) -> str:
    return path.relative_to(APP).parts[0].removesuffix(".py")


def imported(source: str) -> Iterator[str]:
    """Full names of imported modules, inside functions too; `from app import x` gives `app.x`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def forbidden(layer: str, source: str) -> list[str]:
    ours = [module.split(".") for module in imported(source) if module.startswith((".", "app."))]
    return [".".join(parts) for parts in ours if parts[1] not in MAY_IMPORT[layer]]


def outside(source: str) -> set[str]:
    """Packages that are neither ours nor Python's."""
    return {module.split(".")[0] for module in imported(source)} - {"app"} - sys.stdlib_module_names


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_point_downwards(path: Path) -> None:
    if layer(path) not in SEE_EVERYTHING | {"__init__"}:
        assert forbidden(layer(path), path.read_text()) == []


def test_the_rule_would_notice() -> None:
    assert forbidden("api", "from app.store import ledger") == ["app.store.ledger"]
    assert forbidden("store", "def late():\n    import app.usecases.paging") == ["app.usecases.paging"]
    assert forbidden("core", "from app import settings") == ["app.settings"]
    assert forbidden("usecases", "from ..api import errors") != []


def test_the_core_needs_numpy_and_opendp_alone() -> None:
    core = [path for path in MODULES if layer(path) == "core"]
    assert set().union(*(outside(path.read_text()) for path in core)) == {"numpy", "opendp"}


def test_opendp_has_one_door() -> None:
    assert [name(path) for path in MODULES if "opendp" in outside(path.read_text())] == ["core/noise/samplers.py"]


def test_only_main_chooses_the_noise() -> None:
    """And no request, setting or other module can put seeded noise in its place."""
    named = [name(path) for path in MODULES if "SYSTEM_NOISE" in path.read_text()]
    assert named == ["core/noise/samplers.py", "main.py"]
    seeded = {"random", "numpy.random"}
    found = {
        name(path) for path in MODULES if any(each.startswith(tuple(seeded)) for each in imported(path.read_text()))
    }
    assert found == {"client/demo_shop.py"}  # the demo's made-up visitors


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_opens_with_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", MECHANISMS, ids=name)
def test_a_mechanism_cites_what_it_rests_on(path: Path) -> None:
    assert {label.split(":")[0] for label in cited(path.read_text())} & {"lem", "thm", "alg"}


@pytest.mark.parametrize("path", MECHANISMS, ids=name)
def test_a_mechanism_has_its_proof_note_beside_it(path: Path) -> None:
    note = path.with_suffix(".md").read_text()
    assert re.findall(r"^## (.+)$", note, re.MULTILINE) == PARTS
    assert {label.split(":")[0] for label in cited(note)} & {"lem", "thm", "alg"}


def test_every_cited_label_is_in_the_paper() -> None:
    texts = {name(path): path.read_text() for path in [*MODULES, *APP.rglob("*.md")]}
    unknown = {where: cited(text) - LABELS for where, text in texts.items()}
    assert {where: labels for where, labels in unknown.items() if labels} == {}
