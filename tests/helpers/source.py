"""The source tree as the meta tests see it: which modules there are, and what each imports.

Everything is read from the syntax tree, so that nothing is imported and nothing a module does at import can hide.
"""

import ast
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    """One Python file of the tree.

    Attributes:
        name: The dotted name, such as ``tpack.tower.context``; a package's ``__init__.py`` carries the package's name.
        path: The file.
    """

    name: str
    path: Path

    @property
    def is_package(self) -> bool:
        """Whether this is the ``__init__.py`` of a package."""
        return self.path.name == "__init__.py"

    @property
    def text(self) -> str:
        """The source."""
        return self.path.read_text(encoding="utf-8")

    @property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return _parse(self.path)

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def modules_under(folder: str) -> list[Module]:
    """Return every Python file below a folder of the project, sorted by name."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    return [Module(_dotted_name(path), path) for path in paths]


def _dotted_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True)
class Import:
    """One imported thing.

    Attributes:
        source: The module that is named.
        member: What is taken out of it; None for ``import source``.
        line: Where.
    """

    source: str
    member: str | None
    line: int

    def target(self, names: Container[str]) -> str:
        """Return the module that is loaded: ``source.member`` if `names` has such a module, else `source`."""
        full = f"{self.source}.{self.member}"
        return full if full in names else self.source


def imports(tree: ast.AST) -> Iterator[Import]:
    """Yield what a tree imports, at its top or anywhere else, ``import_module("x")`` with a constant name included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, None, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield Import("." * node.level + (node.module or ""), alias.name, node.lineno)
        elif isinstance(node, ast.Call) and called_name(node) == "import_module":
            names = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
            yield from (Import(name, None, node.lineno) for name in names)


def called_name(node: ast.Call) -> str:
    """Return the last part of the name of what is called: ``raises`` for ``pytest.raises(...)``."""
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a tree: methods and nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def assert_none(breaches: Iterable[str]) -> None:
    """Fail with a line for each breach of a rule, all of them, however many."""
    lines = sorted(breaches)
    assert not lines, "\n".join([f"{len(lines)} found:", *lines])
