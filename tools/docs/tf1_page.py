"""``docs/tf1.md``: where each public name of TensorFlow 1.15 is today, made by looking each of them up.

python -m tools.docs.tf1_page        writes the page

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

PAGE = ROOT / "docs" / "tf1.md"
NAMES = ROOT / "tests" / "tf1" / "data" / "names_1_15.txt"

HEAD = """# TensorFlow 1

    import tpack.tf1 as tf        # instead of import tensorflow as tf

and a training script of 2016 to 2020 runs on TensorFlow of today. `tpack.tf1` is `tensorflow.compat.v1`, each name
looked up when it is asked for, with the four namespaces that TensorFlow has lost: `tf.layers`, `tf.nn.rnn_cell`,
`tf.estimator` and `tf.contrib`. It patches nothing, throws no global switch, and works beside `tensorflow.compat.v1` in
one program. Layers and cells have the variables, default names and collections of TensorFlow 1.15, so that its
checkpoints load.

A script that builds without a `tf.Graph` of its own builds into a default graph, as in TensorFlow 1. The thread gets it
when it first asks for a name that builds, such as `tf.placeholder` or `tf.constant`, and executes eagerly no more;
`tf.leave_default_graph()` takes that back. Inside of `with graph.as_default():` and in the functions of a trainer's
model nothing of this happens. A program that trained once begins the next training by `tf.reset_default_graph()`, as it
did.

Two things a script may need that only TensorFlow's own switches give, which tpack leaves to the script: sizes of
shapes as `Dimension` objects (`x.shape[1].value`), by `tf.disable_v2_tensorshape()` in the first line, and loops and
conditions of version 1, by `tf.disable_v2_behavior()`, which includes the other.

A name that is nowhere raises `tpack.errors.MissingNameError`, an `AttributeError` that says what to use in its place:

    >>> tf.contrib.cudnn_rnn
    MissingNameError: tf.contrib.cudnn_rnn is not there: use tf.contrib.rnn.LSTMBlockFusedCell, or ...

`tf.keras` is Keras 3, as TensorFlow has it: `tf.keras.layers` are not those of 2019. `tpack.contrib.keras` trains its
models. `tf.compat.v1` is `tpack.tf1` again. Modules inside TensorFlow (`tensorflow.python.ops`, ...) are imported from
TensorFlow.

The page is made by `python -m tools.docs.tf1_page`, which asks for each of the {total} public names that TensorFlow
1.15.5 lists (without `tf.keras` and `tf.raw_ops`); a test fails when it is not up to date.
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


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
