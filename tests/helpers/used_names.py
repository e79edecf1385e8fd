"""Which public names of tpack a script uses: read from its syntax tree, and only where they come from tpack."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tpack import models


def used_names(path: Path) -> set[tuple[str, str]]:
    """Return (name, module) of each name that a script imports from tpack, by itself or by a star, and then uses.

    A name of a module counts where it is used through the module, such as ``logger.info``; the module given is that
    below tpack, such as ``utils.logger``. A layer counts where it is used through ``LinearWrap``.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {known_as: (name, module, value) for known_as, name, module, value in _imported(tree)}
    found: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in imported:
            found.add(imported[node.id][:2])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            value = imported.get(node.value.id, (None, None, None))[2]
            if inspect.ismodule(value) and value.__name__.startswith("tpack.") and hasattr(value, node.attr):
                found.add((node.attr, _below_tpack(value.__name__)))
        elif "LinearWrap" in imported and _is_layer_in_chain(node):
            found.add((node.func.attr, "models"))
    return found


def _is_layer_in_chain(node: ast.AST) -> bool:
    """Tell whether a call is that of a layer as a method, with the layer's name first."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return False
    first = node.args[0]
    return node.func.attr in models.__all__ and isinstance(first, ast.Constant) and isinstance(first.value, str)


def _imported(tree: ast.Module) -> Iterator[tuple[str, str, str, Any]]:
    """Yield what each name that is imported from tpack is known as, with the name, its module and its value."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("tpack"):
            continue
        module = importlib.import_module(str(node.module))
        for alias in node.names:
            for name in module.__all__ if alias.name == "*" else [alias.name]:
                known_as = name if alias.name == "*" else alias.asname or name
                yield known_as, name, _below_tpack(module.__name__), getattr(module, name)


def _below_tpack(module: str) -> str:
    return module.partition(".")[2]
