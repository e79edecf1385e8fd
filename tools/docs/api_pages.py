"""The pages ``api/`` of the site: one for each group of public names, and for the other names of each package.

A page names where each class or function is made; mkdocstrings reads the signature and docstring from there when the
site is built, without importing anything.
"""

import importlib
import inspect
import re
from dataclasses import dataclass, field
from typing import Any

from tests.helpers.source import modules_under
from tpack.public_names import GROUPS

WITHOUT_PAGE = ("tpack.contrib", "tpack.horovod", "tpack.legacy", "tpack.tf1", "tpack.cli")
"""Packages for scripts that were written for something else, which the pages on migrating tell of, and commands."""

MODULES = ("tpack.errors", "tpack.ray", "tpack.schedules")
"""Modules whose names users import from there."""


@dataclass
class Page:
    """A page of the reference.

    Attributes:
        file: The name of its file.
        title: Its heading.
        origin: Where its names are imported from.
        members: {path where it is made: name}; what a module has is ``module.name``.
        constants: Names of what has no docstring.
    """

    file: str
    title: str
    origin: str
    members: dict[str, str] = field(default_factory=dict)
    constants: list[str] = field(default_factory=list)

    def add(self, name: str, value: Any) -> None:
        """Add a class, a function, or a module with what it has; a constant is only named."""
        if inspect.ismodule(value) and value.__name__.startswith("tpack."):
            members = {member: getattr(value, member) for member in getattr(value, "__all__", ())}
            for member in [member for member in members if not inspect.ismodule(members[member])]:
                self.add(f"{name}.{member}", members[member])
        elif _path(value).startswith("tpack."):
            self.members.setdefault(_path(value), name)
        else:
            self.constants.append(name)

    def text(self) -> str:
        """Return the page."""
        parts = [f"# {self.title}\n\n`from {self.origin} import NAME`, for each NAME of this page.\n"]
        if self.constants:
            parts.append(f"Constants and names of others: {', '.join(f'`{name}`' for name in self.constants)}.\n")
        for path, name in sorted(self.members.items(), key=lambda item: item[1].lower()):
            heading = f'      heading: "{name}"\n      toc_label: "{name}"\n'
            parts.append(f"::: {path}\n    options:\n{heading}")
        return "\n".join(parts)


def pages() -> list[Page]:
    """Return all pages but the first, which lists them."""
    made = [_page_of_group(title, packages) for title, packages in GROUPS.items()]
    shown = {path for page in made for path in page.members}
    for module in modules_under("tpack"):
        if module.is_package and module.name != "tpack" and not module.name.startswith(WITHOUT_PAGE):
            page = _page_of_package(module.name, shown)
            made += [page] if page.members else []
    return made + [_page_of_module(name) for name in MODULES]


def index(made: list[Page]) -> str:
    """Return the first page."""
    lines = [
        "# Reference",
        "",
        "Every public name, by what a reader looks for, from the docstrings. [All names on one page](../names.md)",
        "have a line each.",
        "",
        "| page | names |",
        "|---|---|",
    ]
    rows = [f"| [{page.title}]({page.file}) | {_names(page)} |" for page in made]
    return "\n".join([*lines, *rows]) + "\n"


def files() -> dict[str, str]:
    """Return {name of a file: its text}."""
    made = pages()
    return {"index.md": index(made), **{page.file: page.text() for page in made}}


def _page_of_group(title: str, packages: dict[str, str]) -> Page:
    page = Page(f"{re.sub('[^a-z]+', '_', title.lower()).strip('_')}.md", title, "tpack")
    for package, names in packages.items():
        for name in names.split():
            page.add(name, getattr(importlib.import_module(f"tpack.{package}"), name))
    return page


def _page_of_package(name: str, shown: set[str]) -> Page:
    module = importlib.import_module(name)
    page = Page(f"{name}.md", name, name)
    for member in sorted(module.__all__):
        value = getattr(module, member)
        if not inspect.ismodule(value) and _path(value) not in shown:
            page.add(member, value)
    return page


def _page_of_module(name: str) -> Page:
    """Return the page of a module that lists no names: of all that it makes."""
    page = Page(f"{name}.md", name, name)
    module = importlib.import_module(name)
    for member, value in vars(module).items():
        if not member.startswith("_") and _path(value).startswith(f"{name}."):
            page.add(member, value)
    return page


def _path(value: Any) -> str:
    """Return the dotted path of where a class or function is made; of anything else, nothing."""
    made = inspect.isclass(value) or inspect.isroutine(value)
    return f"{value.__module__}.{value.__qualname__}" if made else ""


def _names(page: Page) -> str:
    names = sorted(page.members.values(), key=str.lower)
    return ", ".join(f"`{name}`" for name in names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
