"""The page ``names.md`` of the site: every public name with its summary, from the lists of the packages."""

import importlib
import inspect
import re
from typing import Any

from tests.helpers.source import modules_under
from tpack.public_names import FOR_STAR, GROUPS

HEAD = """# The public names

All names of `tpack` by purpose, then what each package adds. `from tpack import *` gives them, and packages, as that of
tensorpack did. The names of `tpack.tf1` have [a page of their own](tf1_names.md).
"""


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    shown: set[int] = set()
    for title, packages in GROUPS.items():
        rows = [(name, f"tpack.{package}") for package, names in packages.items() for name in names.split()]
        shown |= {id(getattr(importlib.import_module(package), name)) for name, package in rows}
        parts.append(_table(title, sorted(rows)))
    modules = [
        (name, "tpack") for name in FOR_STAR if inspect.ismodule(getattr(importlib.import_module("tpack"), name))
    ]
    parts.append(_table("Packages and older modules that a star gives", modules))
    packages = [module.name for module in modules_under("tpack") if module.is_package and module.name != "tpack"]
    for package in [name for name in packages if not f"{name}.".startswith("tpack.tf1.")]:
        module = importlib.import_module(package)
        rows = [(name, package) for name in sorted(module.__all__) if id(getattr(module, name)) not in shown]
        if rows:
            parts.append(_table(f"`{package}`, beyond these", rows))
    return "\n".join(parts)


def _table(title: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"## {title}", "", "| name | from | what it is |", "|---|---|---|"]
    for name, package in rows:
        value = getattr(importlib.import_module(package), name)
        lines.append(f"| `{name}` | `{package}` | {_summary(value)} |")
    return "\n".join(lines) + "\n"


def _summary(value: Any) -> str:
    """Return the first sentence of the docstring of a module, class or function; of anything else, its value."""
    if not (inspect.ismodule(value) or inspect.isclass(value) or callable(value)):
        return f"`{value}`".replace("|", r"\|") if isinstance(value, str | int | float) else "a constant"
    if inspect.ismodule(value) and not value.__name__.startswith("tpack."):
        return "The module that TensorFlow keeps under this name."
    text = inspect.getdoc(value) or "A type for annotations."
    sentence = re.split(r"(?<=\.)\s", " ".join(text.split("\n\n")[0].split()), maxsplit=1)[0]
    return sentence.replace("|", r"\|")
