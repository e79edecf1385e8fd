"""Imports and uses of a source by full names, and files that pass TensorFlow on by star imports.

After ``from utils import *`` a file's ``tf`` is that of ``utils``, whatever it has imported before. So ``utils`` gets
the module of TensorFlow that the files need which import it so, and not only the one that is enough for itself.
"""

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath

import libcst as cst
from libcst.helpers import get_absolute_module_for_import, get_full_name_for_node
from libcst.metadata import MetadataWrapper, QualifiedNameProvider, QualifiedNameSource

from tpack.cli.migrating import names
from tpack.cli.migrating.lint import Note

TFV1 = ("tensorpack.tfv1", "tensorpack.compat.tfv1")
TF_ROOTS = ("tpack.tf1", "tensorflow.compat.v1", "tensorflow", *TFV1)
"""The modules that sources call ``tf``."""
# Whatever a folder has under these names, the imports become those of tpack.
_PACKAGES = ("tensorpack", "tpack", "tensorflow")


class Usage:
    """The imports and uses of a source.

    Args:
        roots: the names that imports bind.
        unbound: the lines of names that nothing in the source binds.
        gives_tensorflow: whether its ``tf`` is also that of files that need `tpack.tf1`.

    Attributes:
        used: full names of what is used of what is imported.
        used_outside: those that are used outside of functions.
        imported: the imported modules.
        bound: the names that the source binds, but by plain imports.
        stars: the modules that are imported by star.
        variables: the qualified names of what is assigned a variable.
        tensorflow: what the top of the source calls TensorFlow.
    """

    def __init__(self, roots: set[str], unbound: dict[str, int], *, gives_tensorflow: bool) -> None:
        self.gives_tensorflow = gives_tensorflow
        self.roots = roots
        self.unbound = unbound
        self.used: set[str] = set()
        self.used_outside: set[str] = set()
        self.imported: set[str] = set()
        self.bound: set[str] = set()
        self.stars: set[str] = set()
        self.variables: set[str] = set()
        self.tensorflow = ""

    def read(self, wrapper: MetadataWrapper) -> None:
        """Collect the imports and uses of a source."""
        wrapper.visit(_Collector(self))

    def home_of_tensorflow(self) -> str:
        """Return the new module of ``tf``."""
        if self.gives_tensorflow:
            return "tpack.tf1"
        with_trainers = (name for name in self.imported if names.is_in(name, ["tensorpack", "tpack"]))
        has_trainer = any(not names.is_in(name, ["tpack.tf1"]) for name in with_trainers)
        used, outside = after_tf(self.used), after_tf(self.used_outside)
        return names.home_of_tensorflow(used, outside, has_trainer=has_trainer)

    def lost_names(self) -> dict[str, str]:
        """Return the homes of used names that a star import of an older tensorpack gave, and that of tpack does not."""
        homes = {name: names.home_of_lost_name(name) for name in self.unbound if not names.has_name("", name)}
        return {name: home for name, home in sorted(homes.items()) if home is not None}

    def not_given_by_stars(self) -> list[Note]:
        """Return notes on names that only star imports of tensorpack can give, and that tpack does not have."""
        if not self.stars or not all(names.is_in(module, ["tensorpack"]) for module in self.stars):
            return []
        lost = self.lost_names() if "tensorpack" in self.stars else {}
        paths = [module.removeprefix("tensorpack").removeprefix(".") for module in self.stars]
        return [
            Note(line, f"{name} is not there: no star import of tpack gives it")
            for name, line in self.unbound.items()
            if name not in lost and not any(names.has_name(path, name) for path in paths)
        ]

    @property
    def uses_keras(self) -> bool:
        """Whether the file imports Keras, or uses it as ``tf.keras``."""
        return any(names.is_in(name, ["tensorflow.keras", "keras"]) for name in (*self.used, *self.imported))

    @property
    def edits_graphs(self) -> bool:
        """Whether it uses ``tf.contrib.graph_editor``, and with it operations as TensorFlow 1 had them."""
        return any(names.is_in(name, ["contrib.graph_editor"]) for name in after_tf({*self.used, *self.imported}))

    @property
    def uses_older_collections(self) -> bool:
        """Whether names of ``collections.abc`` are used as those of ``collections``."""
        return any(f"collections.{name}" in self.used for name in names.ABSTRACT)


class _Collector(cst.CSTVisitor):
    """Collects the imports and uses of a source."""

    METADATA_DEPENDENCIES = (QualifiedNameProvider,)

    def __init__(self, usage: Usage) -> None:
        super().__init__()
        self._usage = usage
        self._depth = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._depth += 1
        self._usage.bound.add(node.name.value)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._depth -= 1

    def visit_Import(self, node: cst.Import) -> bool:
        for alias in node.names:
            if not self._depth and get_full_name_for_node(alias.name) in TF_ROOTS and alias.evaluated_alias:
                self._usage.tensorflow = alias.evaluated_alias
        self._usage.imported.update(get_full_name_for_node(alias.name) or "" for alias in node.names)
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        module = module_of(node)
        self._usage.imported.add(module)
        if isinstance(node.names, cst.ImportStar):
            self._usage.stars.add(module)
        else:
            self._usage.used.update(f"{module}.{alias.name.value}" for alias in node.names)
            self._usage.bound.update(str(alias.evaluated_alias or alias.evaluated_name) for alias in node.names)
        return False

    def visit_Assign(self, node: cst.Assign) -> None:
        called = node.value.func if isinstance(node.value, cst.Call) else None
        if called is None or root_name(called) not in self._usage.roots:
            return
        made = {found.name for found in self.get_metadata(QualifiedNameProvider, called, set())}
        if after_tf(made) & set(names.VARIABLES):
            for target in node.targets:
                self._usage.variables |= {
                    found.name for found in self.get_metadata(QualifiedNameProvider, target.target, set())
                }

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        if isinstance(node.target, cst.Name):
            self._usage.bound.add(node.target.value)

    def visit_Param(self, node: cst.Param) -> None:
        self._usage.bound.add(node.name.value)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self._use(node)

    def visit_Name(self, node: cst.Name) -> None:
        self._use(node)

    def _use(self, node: cst.CSTNode) -> None:
        if root_name(node) not in self._usage.roots:
            return
        for found in self.get_metadata(QualifiedNameProvider, node, set()):
            if found.source is QualifiedNameSource.IMPORT:
                self._usage.used.add(found.name)
                if not self._depth:
                    self._usage.used_outside.add(found.name)


def bound_by_imports(tree: ast.AST) -> set[str]:
    """Return the names that imports bind anywhere in a source."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names}


def root_name(node: cst.CSTNode) -> str | None:
    """Return the first name of a chain of attributes."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else None


def module_of(node: cst.ImportFrom) -> str:
    """Return the imported module; empty for a relative import."""
    return "" if node.relative else get_absolute_module_for_import(None, node) or ""


def after_tf(used: Iterable[str]) -> set[str]:
    """Return the parts after ``tf.`` of TensorFlow's names."""
    found = set()
    for name in used:
        root = next((root for root in TF_ROOTS if name.startswith(f"{root}.")), None)
        if root is not None:
            found.add(name.removeprefix(f"{root}."))
    return found


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
    roots = {"tf", *(alias.asname or alias.name for alias in imports if alias.name in TF_ROOTS)}
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
