"""``__init__.pyi`` of the packages whose names are loaded on first use, so that type checkers know the names.

    python -m tests.helpers.stubs        writes the files

They are made from the tables that the packages themselves are made of, and say nothing but where a name is.
"""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import tpack
from tests.helpers.source import ROOT, Module, modules_under
from tpack.legacy.table import NAMES
from tpack.public_names import FOR_STAR, names_by_package

HEAD = '"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""\n'


def stubs() -> Iterator[tuple[Path, str]]:
    """Return the path and the text of each stub."""
    for module in modules_under("tpack"):
        table = _table_of(module)
        if table:
            yield ROOT / module.path.with_suffix(".pyi"), _formatted(f"{HEAD}\n{_text(module.name, table)}")


def _table_of(module: Module) -> dict[str, tuple[str, ...]]:
    """Return the public names of a lazy package by the modules that have them; nothing for any other module."""
    if module.name == "tpack":
        return names_by_package()
    for node in ast.walk(module.tree) if module.is_package else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "attach":
            # Only older names have a table that is computed; they have no types.
            return dict(ast.literal_eval(node.args[1])) if isinstance(node.args[1], ast.Dict) else {}
    return {}


def _text(package: str, table: dict[str, tuple[str, ...]]) -> str:
    lines = [line for module, names in table.items() for line in _imports(package, module, names)]
    if package != "tpack":
        # Only with ``__all__`` does a type checker offer names that are imported under others.
        is_renamed = any("=" in entry.rstrip("=") for names in table.values() for entry in names)
        star = [f"__all__ = {sorted(importlib.import_module(package).__all__)}"] if is_renamed else []
        return "\n".join([*lines, *star, ""])
    # ``tpack.callbacks`` is there after ``import tpack``.
    lines += _imports("", package, sorted(module for module in table if "." not in module))
    lines += ["from typing import Any", "from tpack.version import __version__ as __version__"]
    older = sorted({*FOR_STAR, *(name for names in NAMES.values() for name in names)} - {*table})
    lines += ["", "# tensorpack's older names.", *(f"{name}: Any" for name in older)]
    return "\n".join([*lines, "", "# What a star gives.", f"__all__ = {sorted(tpack.__all__)}", ""])


def _imports(package: str, module: str, names: Iterable[str]) -> list[str]:
    """Return the import of each name; of the module itself where it is one."""
    home = module if module.startswith(("tpack.", "tensorflow.")) else f"{package}.{module}".lstrip(".")
    parent, _, own = home.rpartition(".")
    lines = []
    for entry in names or (f"{own}=",):
        name, is_other, attribute = entry.partition("=")
        source, old = (home, attribute or name) if attribute or not is_other else (parent, own)
        *path, old = old.split(".")
        lines.append(f"from {'.'.join([source, *path])} import {old} as {name}")
    return lines


def _formatted(text: str) -> str:
    """Return the text as ruff wants it."""
    for arguments in (["check", "--fix-only", "--select=I"], ["format"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--quiet", "--stdin-filename=stub.pyi", "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


if __name__ == "__main__":
    for path, text in stubs():
        path.write_text(text, encoding="utf-8")
