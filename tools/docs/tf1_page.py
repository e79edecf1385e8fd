"""The page ``tf1_names.md`` of the site: where each public name of TensorFlow 1.15 is today, found by looking it up.

The names are those of ``tests/tf1/data/names_1_15.txt``, which TensorFlow 1.15.5 itself listed.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import reduce
from types import ModuleType
from typing import Any

import tensorflow.compat.v1 as tfv1

from tests.helpers.source import ROOT
from tpack.tf1 import _load
from tpack.tf1.removed_names import reason_for

NAMES = ROOT / "tests" / "tf1" / "data" / "names_1_15.txt"

HEAD = """# Names of TensorFlow 1.15

Where each of the {total} public names that TensorFlow 1.15.5 lists (without `tf.keras` and `tf.raw_ops`) is under
[`tpack.tf1`](tf1.md), and what replaces those that are gone.
"""


@dataclass(frozen=True)
class Name:
    """One name of TensorFlow 1.15.

    Attributes:
        namespace: Where it was, such as ``tf.contrib.data``.
        name: The name there.
        home: ``"TensorFlow"`` or ``"tpack"``, by who makes what it is today; ``""`` if it is nowhere.
    """

    namespace: str
    name: str
    home: str

    @property
    def wanted(self) -> str:
        """The whole name after ``tf.``."""
        return f"{self.namespace}.{self.name}".removeprefix("tf.")


def names() -> list[Name]:
    """Look each name of TensorFlow 1.15 up."""
    found, namespace = [], ""
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if line.endswith(":"):
            namespace = line[:-1]
        else:
            found += [Name(namespace, name, home_of(f"{namespace}.{name}")) for name in line.split()]
    return found


def home_of(path: str) -> str:
    """Return who makes what is at a path such as ``tf.contrib.data.Counter`` today."""
    wanted = path.removeprefix("tf.")
    try:
        value = find(wanted)
    except AttributeError:
        return ""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if isinstance(module, str) and module.startswith("tpack"):
        return "tpack"
    return "TensorFlow" if value is not tfv1 else "tpack"


def find(wanted: str) -> Any:
    """Return what is at a path such as ``contrib.data.Counter``."""
    first, *others = wanted.split(".")
    # Not through the package itself, which would give this process a default graph.
    return reduce(getattr, others, _load(first))


def page() -> str:
    """Return the page."""
    found = names()
    return "\n".join([HEAD.format(total=len(found)), _counts(found), _refused(found)])


def _counts(found: list[Name]) -> str:
    homes: dict[str, Counter[str]] = defaultdict(Counter)
    for name in found:
        homes[_group(name.namespace)][name.home] += 1
        homes["all"][name.home] += 1
    lines = [
        "## What is there",
        "",
        "| namespace | names | TensorFlow's | tpack's | not there |",
        "|---|---|---|---|---|",
    ]
    for group, count in sorted(homes.items()):
        there = f"{count['TensorFlow']} | {count['tpack']} | {count['']}"
        lines.append(f"| {'all' if group == 'all' else f'`{group}`'} | {count.total()} | {there} |")
    return "\n".join(lines) + "\n"


def _group(namespace: str) -> str:
    parts = namespace.split(".")
    return ".".join(parts[: 3 if parts[1:2] == ["contrib"] else 2])


def _refused(found: list[Name]) -> str:
    lines = ["## What is not there, and what to use", "", "| name | what to use |", "|---|---|"]
    whole = {name.wanted for name in found if name.home == "" and name.namespace == "tf.contrib"}
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in found:
        if name.home == "" and ".".join(name.wanted.split(".")[:2]) not in whole - {name.wanted}:
            by_reason[name.namespace, str(reason_for(name.wanted))].append(name.name)
    for (namespace, reason), refused in by_reason.items():
        lines.append(f"| {', '.join(f'`{namespace}.{name}`' for name in refused)} | {reason} |")
    return "\n".join(lines) + "\n"
