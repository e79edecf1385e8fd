"""``docs/names.md``: every public name and what it is, made from the lists that the packages themselves are made of.

python -m tools.docs.names_page        writes the page
"""

import importlib
import inspect
import re
from typing import Any

from tests.helpers.source import ROOT, modules_under
from tpack.public_names import GROUPS

PAGE = ROOT / "docs" / "names.md"

HEAD = """# The public names

What `tpack` has, by what a reader looks for, and after it what the packages offer beyond that. `from tpack import *`
gives it, but of modules only `dataset`, `imgaug` and `logger`: others are imported by name, as in `from tpack import
summary`; scripts of tensorpack's that run by `tpack.install_as_tensorpack()` get them by a star, too. The page is made
by `python -m tools.docs.names_page` from `tpack/public_names.py` and the `__all__` of each package; a test fails
when it is not up to date. What `tpack.tf1` has of TensorFlow 1 is on [a page of its own](tf1.md).
"""


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    shown: set[int] = set()
    for title, packages in GROUPS.items():
        rows = [(name, f"tpack.{package}") for package, names in packages.items() for name in names.split()]
        shown |= {id(getattr(importlib.import_module(package), name)) for name, package in rows}
        parts.append(_table(title, sorted(rows)))
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
    text = inspect.getdoc(value) or ""
    sentence = re.split(r"(?<=\.)\s", " ".join(text.split("\n\n")[0].split()), maxsplit=1)[0]
    return sentence.replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
