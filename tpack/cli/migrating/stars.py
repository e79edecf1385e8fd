"""Files that pass TensorFlow on by star imports.

After ``from utils import *`` a file's ``tf`` is that of ``utils``, whatever it has imported before. So ``utils`` gets
the module of TensorFlow that the files need which import it so, and not only the one that is enough for itself.
"""

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath

from tpack.cli.migrating import names

_ROOTS = ("tensorflow", "tensorflow.compat.v1", "tpack.tf1")
# Whatever a folder has under these names, the imports become those of tpack.
_PACKAGES = ("tensorpack", "tpack", "tensorflow")


def givers_of_tensorflow(sources: Mapping[str, str]) -> set[str]:
    """Return the files whose star imports give ``tf`` to files that need `tpack.tf1`, directly or through others.

    Args:
        sources: the sources by path; those that are not Python 3 are left out.
    """
    trees = {path: tree for path, source in sources.items() if (tree := _parsed(source)) is not None}
    files: dict[str, list[PurePath]] = {}
    for path in map(PurePath, trees):
        files.setdefault(path.parent.name if path.stem == "__init__" else path.stem, []).append(path)
    imported = {path: set(_imported_by_star(PurePath(path), tree, files)) for path, tree in trees.items()}
    stack = [path for path, tree in trees.items() if imported[path] and _needs_tf1(tree)]
    found: set[str] = set()
    while stack:
        more = imported[stack.pop()] - found
        found |= more
        stack += more
    return found


def _parsed(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imported_by_star(path: PurePath, tree: ast.Module, files: Mapping[str, list[PurePath]]) -> Iterator[str]:
    """Yield the files that a file imports by star: of several that fit, those in its own folder."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.names[0].name != "*":
            continue
        if not node.level and names.is_in(node.module or "", _PACKAGES):
            continue
        parts = tuple((node.module or "").split("."))
        fitting = [each for each in files.get(parts[-1], ()) if _is_module(each, parts) and each != path]
        near = [each for each in fitting if each.parent == path.parent]
        yield from map(str, near or fitting)


def _is_module(path: PurePath, parts: tuple[str, ...]) -> bool:
    """Tell whether a file is a module by the end of its path."""
    whole = path.parent.parts if path.stem == "__init__" else (*path.parent.parts, path.stem)
    return whole[-len(parts) :] == parts


def _needs_tf1(tree: ast.Module) -> bool:
    """Tell whether `tpack.tf1` is the home of what a file uses of its ``tf``, imported by it or given to it."""
    imports = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    modules |= {alias.name for alias in imports}
    trainers = [name for name in modules if names.is_in(name, ["tensorpack", "tpack"])]
    roots = {"tf", *(alias.asname or alias.name for alias in imports if alias.name in _ROOTS)}
    used, outside = (_used(_nodes(tree, in_functions=each), roots) for each in (True, False))
    has_trainer = any(not names.is_in(name, ["tpack.tf1"]) for name in trainers)
    return names.home_of_tensorflow(used, outside, has_trainer=has_trainer) == "tpack.tf1"


def _nodes(tree: ast.Module, *, in_functions: bool) -> Iterator[ast.AST]:
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        inner = ast.iter_child_nodes(node)
        stack += [
            each for each in inner if in_functions or not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        ]


def _used(nodes: Iterable[ast.AST], roots: set[str]) -> set[str]:
    """Return the names after ``tf.`` of attributes."""
    found = set()
    for node in nodes:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name) and node.id in roots:
            found.add(".".join(reversed(parts)))
    return found
