"""Measure how readable `app` is for a stranger: documented names, helpers that only cut a function up, sizes.

    python -m tests.architecture.house                          a table by folder
    python -m tests.architecture.house app/client app/cli.py    what is undocumented or used once in these places

A public name is documented if it has a docstring, or if it overrides a method that has one. A small helper is a plain
function or method whose body has at most three lines. It is used once if its name is mentioned once: in its own file if
the name is private, else in the whole of `app`. Where that mention is a call, the helper could be written there; else
it is handed over as a value, as the handler of a command or of a signal is.
"""

import ast
import importlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[2]
APP = ROOT / "app"
SMALL = 3  # lines of a body

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Source:
    """A file, as text and as a tree, with the names that it mentions; a definition or an import is no mention."""

    path: Path
    text: str
    tree: ast.Module
    mentions: "Mentions"

    @classmethod
    def read(cls, path: Path) -> "Source":
        """Parse the file at this path."""
        text = path.read_text()
        tree = ast.parse(text)
        return cls(path, text, tree, Mentions.of(tree))


@dataclass(frozen=True, slots=True)
class Mentions:
    """How often each name is mentioned, and how often it is called."""

    all: Counter[str]
    calls: Counter[str]

    @classmethod
    def of(cls, tree: ast.Module) -> "Mentions":
        """Count names and attributes alike."""
        nodes = list(ast.walk(tree))
        called = [node.func for node in nodes if isinstance(node, ast.Call)]
        return cls(Counter(_names(nodes)), Counter(_names(called)))

    def __add__(self, other: "Mentions") -> "Mentions":
        return Mentions(self.all + other.all, self.calls + other.calls)


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


@dataclass(frozen=True, slots=True)
class Defined:
    """A function, method or class of a module; nothing that is defined inside a function."""

    source: Source
    module: tuple[str, ...]
    names: tuple[str, ...]  # of the classes that it is in, and its own
    node: _Definition
    in_protocol: bool

    @property
    def place(self) -> str:
        """Where an editor finds it, and its name."""
        return f"{'/'.join(self.module)}.py:{self.node.lineno} {'.'.join(self.names)}"

    @property
    def name(self) -> str:
        """Its own name, without those around it."""
        return self.names[-1]

    @property
    def is_function(self) -> bool:
        """Whether it is a function or method, not a class."""
        return isinstance(self.node, _Function)

    @property
    def is_public(self) -> bool:
        """Whether others may use it: neither its name nor that of a class or module around it begins with `_`."""
        return not any(name.startswith("_") for name in (*self.module, *self.names))

    @property
    def is_documented(self) -> bool:
        """Whether it has a docstring, or a method that it overrides has one."""
        return ast.get_docstring(self.node) is not None or (
            self.is_function and len(self.names) > 1 and self._overrides_documented()
        )

    def _overrides_documented(self) -> bool:
        owner: object = importlib.import_module(".".join(self.module))
        for name in self.names[:-1]:
            owner = getattr(owner, name)
        assert isinstance(owner, type)
        return any(getattr(base.__dict__.get(self.name), "__doc__", None) for base in owner.__mro__[1:])

    @property
    def lines(self) -> int:
        """The length of the body without its docstring, blank lines and comments."""
        body = self.node.body[1:] if ast.get_docstring(self.node) is not None else self.node.body
        if not body:
            return 0
        written = self.source.text.splitlines()[body[0].lineno - 1 : body[-1].end_lineno]
        return sum(not line.strip().startswith("#") and bool(line.strip()) for line in written)

    @property
    def is_small_helper(self) -> bool:
        """Whether it could be written where it is called: short, and neither decorated nor part of an interface."""
        plain = isinstance(self.node, _Function) and not self.node.decorator_list and not self.in_protocol
        return plain and not (self.name.startswith("__") and self.name.endswith("__")) and self.lines <= SMALL


@dataclass(frozen=True, slots=True)
class House:
    """What was measured of some files, with public names counted over all of them."""

    sources: list[Source]
    definitions: list[Defined]
    mentions: Mentions

    @property
    def public(self) -> list[Defined]:
        """What should have a docstring."""
        return [each for each in self.definitions if each.is_public]

    @property
    def undocumented(self) -> list[Defined]:
        """Public names without a docstring."""
        return [each for each in self.public if not each.is_documented]

    @property
    def functions(self) -> list[Defined]:
        """Functions and methods, private ones too."""
        return [each for each in self.definitions if each.is_function]

    @property
    def used_once(self) -> list[Defined]:
        """Small helpers that a single place mentions."""
        small = [each for each in self.functions if each.is_small_helper]
        return [each for each in small if self._mentions(each).all[each.name] == 1]

    @property
    def called_once(self) -> list[Defined]:
        """Those of them that are called there, not handed over as a value."""
        return [each for each in self.used_once if self._mentions(each).calls[each.name] == 1]

    def _mentions(self, each: Defined) -> Mentions:
        return each.source.mentions if each.name.startswith("_") else self.mentions

    @property
    def documented_share(self) -> float:
        """Of the public names, those with a docstring."""
        return 1 - len(self.undocumented) / max(1, len(self.public))

    @property
    def used_once_share(self) -> float:
        """Of all functions, the small helpers that are used once."""
        return len(self.used_once) / max(1, len(self.functions))

    @property
    def called_once_share(self) -> float:
        """Of all functions, the small helpers that could be written where they are called."""
        return len(self.called_once) / max(1, len(self.functions))

    @property
    def file_lengths(self) -> dict[str, int]:
        """The lines of each file."""
        return {str(source.path): len(source.text.splitlines()) for source in self.sources}

    @property
    def function_lengths(self) -> dict[str, int]:
        """The lines of each body, by place."""
        return {each.place: each.lines for each in self.functions}

    def within(self, sources: Iterable[Source]) -> "House":
        """The same of some of the files."""
        chosen = list(sources)
        return House(chosen, [each for each in self.definitions if each.source in chosen], self.mentions)


def measured(folder: Path = APP) -> House:
    """Read all Python files of a package."""
    sources = [Source.read(path) for path in sorted(folder.rglob("*.py"))]
    definitions = [
        each
        for source in sources
        for each in _defined(source, source.path.relative_to(folder.parent).with_suffix("").parts, source.tree.body, ())
    ]
    return House(sources, definitions, sum((source.mentions for source in sources), Mentions(Counter(), Counter())))


def _defined(
    source: Source, path: tuple[str, ...], body: list[ast.stmt], outer: tuple[ast.ClassDef, ...]
) -> Iterator[Defined]:
    module = path[:-1] if path[-1] == "__init__" else path
    in_protocol = any("Protocol" in ast.unparse(base) for each in outer for base in each.bases)
    for node in body:
        if isinstance(node, _Definition):
            yield Defined(source, module, (*(each.name for each in outer), node.name), node, in_protocol)
        if isinstance(node, ast.ClassDef):
            yield from _defined(source, path, node.body, (*outer, node))


# What is printed


def table(house: House) -> Iterator[str]:
    """A line for each folder, one for each file beside them, and one for all together."""
    shares = f"{'docstrings':>17} {'used once':>16} {'called once':>16}"
    yield f"{'':22} {shares} {'file med/p90/max':>18} {'function med/p90/max':>22}"
    folders = sorted({source.path.parent for source in house.sources} - {APP})
    for folder in folders:
        yield _row(folder, house.within(source for source in house.sources if source.path.parent == folder))
    for alone in house.sources:
        if alone.path.parent == APP:
            yield _row(alone.path, house.within([alone]))
    yield _row(APP, house)


def _row(path: Path, house: House) -> str:
    public, functions = len(house.public), len(house.functions)
    docstrings = f"{public - len(house.undocumented)} of {public} = {house.documented_share:4.0%}"
    once = f"{len(house.used_once)} of {functions} = {house.used_once_share:3.0%}"
    called = f"{len(house.called_once)} of {functions} = {house.called_once_share:3.0%}"
    sizes = f"{_sizes(house.file_lengths):>18} {_sizes(house.function_lengths):>22}"
    return f"{path.relative_to(ROOT)!s:22} {docstrings:>17} {once:>16} {called:>16} {sizes}"


def _sizes(lengths: dict[str, int]) -> str:
    sizes = sorted(lengths.values())
    if len(sizes) < 2:
        return " ".join(map(str, sizes)) or "-"
    return f"{median(sizes):.0f} / {quantiles(sizes, n=10, method='inclusive')[-1]:.0f} / {sizes[-1]}"


def findings(house: House) -> Iterator[str]:
    """Each public name without a docstring, and each small helper that is used once, with how."""
    yield from (f"{each.place}: no docstring" for each in house.undocumented)
    yield from (f"{each.place}: {each.lines} lines, called once" for each in house.called_once)
    others = [each for each in house.used_once if each not in house.called_once]
    yield from (f"{each.place}: {each.lines} lines, handed over once" for each in others)


def main(places: list[str]) -> None:
    """Print the table, or what is to be done in the places that are given."""
    house = measured()
    folders = [ROOT / place for place in places]
    chosen = (source for source in house.sources if any(map(source.path.is_relative_to, folders)))
    lines = findings(house.within(chosen)) if places else table(house)
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main(sys.argv[1:])
