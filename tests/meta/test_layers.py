"""Allowed imports: from lower levels, or inside of a part without a cycle; and from the same ring or one inside it.

The table is the one of ``docs/architecture.md``. Ring 0 is the core, rings 1 and 2 are annexes of it.
"""

import ast
import re
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.helpers.source import ROOT, assert_none, imports, modules_under

# The part of the tree, longest name first where one holds another, and its level. ``tpack.callbacks`` alone, its
# ``__init__``, runs before ``tpack.callbacks.base`` and is therefore as low.
LEVELS = {
    "tpack.errors": 0,
    "tpack.version": 0,
    "tpack.types": 0,
    "tpack.public_names": 0,
    "tpack.utils": 1,
    "tpack.compat": 2,
    "tpack.schedules": 2,
    "tpack.legacy": 2,
    "tpack.multi_worker.cluster": 2,
    "tpack.multi_worker.control": 2,
    "tpack.dataflow": 3,
    "tpack.tower": 3,
    "tpack.callbacks.base": 4,
    "tpack.graph_copy": 4,
    "tpack.graph_copy.nodes": 3,
    "tpack.graph_copy.op_kinds": 1,
    "tpack.reduction": 4,
    "tpack.tfutils": 4,
    "tpack.step": 5,
    "tpack.multi_worker": 5,
    "tpack.optimizers": 5,
    "tpack.graph_builder": 6,
    "tpack.input_source": 6,
    "tpack.distribute": 6,
    "tpack.models": 6,
    "tpack.callbacks": 7,
    "tpack.predict": 7,
    "tpack.multi_worker.tables.embedding": 7,
    "tpack.multi_worker.gradient_queues": 7,
    "tpack.multi_worker.local_steps": 7,
    "tpack.multi_worker.parameter_server": 7,
    "tpack.multi_worker.ps_replicated": 7,
    "tpack.multi_worker.replicated_builder": 7,
    "tpack.multi_worker.sharded_builder": 7,
    "tpack.multi_worker.staleness": 7,
    "tpack.multi_worker.uneven": 7,
    "tpack.multi_worker.scaling": 8,
    "tpack.train": 8,
    "tpack.estimator": 8,
    "tpack.distribute.trainer": 9,
    "tpack.multi_worker.callbacks": 9,
    "tpack.multi_worker.cross_worker": 9,
    "tpack.multi_worker.ps_trainer": 9,
    "tpack.multi_worker.replicated_trainer": 9,
    "tpack.multi_worker.memory_saver": 9,
    "tpack.multi_worker.trainer": 9,
    "tpack.keras": 9,
    "tpack.selftest": 9,
    "tpack.tuning": 9,
    "tpack.legacy.code": 9,
    "tpack.tf1": 9,
    "tpack.cli": 10,
    "tpack.contrib": 10,
    "tpack.horovod": 10,
    "tpack.multi_worker.strategy_trainer": 10,
    "tpack.__main__": 11,
    "tpack.ray": 11,
    "tpack.as_tensorpack": 11,
    "tpack.as_horovod": 11,
}
EXACT = {"tpack.callbacks": 4, "tpack": 10}

# What is not here is the core, ring 0; also ``tpack`` itself, although it is on a high level.
RINGS = {
    "tpack.cli": 1,
    "tpack.distribute": 1,
    "tpack.estimator": 1,
    "tpack.horovod": 1,
    "tpack.keras": 1,
    "tpack.legacy": 1,
    "tpack.models": 1,
    "tpack.multi_worker": 1,
    "tpack.optimizers": 1,
    "tpack.selftest": 1,
    "tpack.tuning": 1,
    "tpack.__main__": 2,
    "tpack.as_horovod": 2,
    "tpack.as_tensorpack": 2,
    "tpack.contrib": 2,
    "tpack.ray": 2,
    "tpack.tf1": 2,
}

WITHOUT_TENSORFLOW = (
    "tpack.errors",
    "tpack.version",
    "tpack.utils",
    "tpack.schedules",
    "tpack.legacy",
    "tpack.multi_worker.cluster",
    "tpack.multi_worker.control",
    "tpack.dataflow",
    "tpack",
)

MODULES = modules_under("tpack")
NAMES = {module.name for module in MODULES}


def part_of(name, parts=LEVELS):
    """Return the part of the table that a module belongs to: the longest one that holds it."""
    held = [part for part in parts if name == part or name.startswith(part + ".")]
    return max(held, key=len) if held else "tpack"


def ring_of(name):
    """Return the ring of a module."""
    return RINGS.get(part_of(name, RINGS), 0)


def outward(name, tree):
    """Return a line for each import of a module of a ring further out."""
    return [
        f"{name}:{line} (ring {ring_of(name)}) imports {target} (ring {ring_of(target)})"
        for line, target in imports_of_tpack(tree)
        if ring_of(target) > ring_of(name)
    ]


def level_of(name):
    """Return the level of a module."""
    return EXACT[name] if name in EXACT else LEVELS[part_of(name)]


def imports_of_tpack(tree):
    """Yield (line, module loaded) for each import of a part of tpack."""
    for found in imports(tree):
        if found.source.split(".")[0] == "tpack":
            yield found.line, found.target(NAMES)


def breaches(name, tree):
    """Return a line for each import in `tree`, the source of module `name`, that goes up or sideways."""
    lines = []
    for line, target in imports_of_tpack(tree):
        # Parts of one package may stand on one level: those of several workers that build.
        is_one_package = target.split(".")[:2] == name.split(".")[:2] and level_of(target) == level_of(name)
        is_inside = (part_of(target) == part_of(name) or is_one_package) and name not in EXACT
        if not is_inside and name != "tpack" and level_of(target) >= level_of(name):
            lines.append(f"{name}:{line} (level {level_of(name)}) imports {target} (level {level_of(target)})")
    return lines


def test_every_module_has_a_level():
    assert_none(str(module) for module in MODULES if module.name not in EXACT and part_of(module.name) not in LEVELS)


def test_modules_import_only_from_below():
    assert_none(line for module in MODULES for line in breaches(module.name, module.tree))


def test_modules_import_no_ring_further_out():
    assert_none(line for module in MODULES for line in outward(module.name, module.tree))


def test_modules_import_modules_not_packages():
    packages = {module.name for module in MODULES if module.is_package}
    found = [(str(module), line, got) for module in MODULES for line, got in imports_of_tpack(module.tree)]
    assert_none(f"{module}:{line} imports {got}" for module, line, got in found if got in packages)


def test_tensorflow_python_is_touched_in_compat_only():
    found = [(module.name, imported.source + ".") for module in MODULES for imported in imports(module.tree)]
    users = {name for name, source in found if source.startswith("tensorflow.python.")}
    # The names of modules that are imported later; the command line reads and writes such names in scripts.
    for module in MODULES:
        if part_of(module.name) == "tpack.cli":
            continue
        texts = (node.value for node in ast.walk(module.tree) if isinstance(node, ast.Constant))
        if any(isinstance(text, str) and text.startswith("tensorflow.python.") for text in texts):
            users.add(module.name)
    assert {part_of(name) for name in users} == {"tpack.compat"}


def test_tf_means_compat_v1():
    nodes = [
        (str(module), node) for module in MODULES for node in ast.walk(module.tree) if isinstance(node, ast.Import)
    ]
    named = {(where, alias.name) for where, node in nodes for alias in node.names if alias.asname == "tf"}
    assert {(where, name) for where, name in named if name != "tensorflow.compat.v1"} == set()


def test_lower_modules_never_import_tensorflow():
    lower = [module for module in MODULES if part_of(module.name) in WITHOUT_TENSORFLOW]
    found = [(str(module), imported.source.split(".")[0]) for module in lower for imported in imports(module.tree)]
    assert len(lower) > 10
    assert_none(module for module, top_name in found if top_name in ("tensorflow", "keras"))


def test_table_in_the_docs_is_the_same():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (.*?) \|", text, re.M)
    cells = [(name, int(level), int(ring)) for level, ring, names in rows for name in re.findall(r"`([\w.]+)`", names)]
    documented = {f"tpack.{name}": (level, ring) for name, level, ring in cells}
    assert documented.pop("tpack.tpack") == (level_of("tpack"), ring_of("tpack"))
    assert documented == {name: (LEVELS.get(name, level_of(name)), ring_of(name)) for name in {*LEVELS, *RINGS}}


def test_no_cycle_between_modules():
    graph = {module.name: {target for _, target in imports_of_tpack(module.tree)} for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("modules import each other: " + " <- ".join(error.args[1]))


@pytest.mark.parametrize(
    ("name", "text", "is_breach"),
    [
        ("tpack.train.trainer", "from tpack.callbacks.base import Callback", False),
        ("tpack.train.trainer", "from tpack.distribute.strategy import DistributionStrategy", True),
        ("tpack.multi_worker.callbacks", "from tpack.train.trainer import Trainer", False),
        ("tpack.train.trainer", "from tpack.multi_worker.callbacks import StepHeartbeat", True),
        ("tpack.callbacks.monitors.writers", "from tpack.multi_worker.cross_worker import x", True),
        ("tpack.models.fc", "from tpack.utils.renames import say", False),
        ("tpack.models.fc", "from tpack.legacy.table import say", False),
        ("tpack.models.fc", "from tpack.tf1.layers.core import dense", True),
        ("tpack", "import tpack.legacy.table", True),
        ("tpack", "from tpack.public_names import FOR_STAR", False),
    ],
)
def test_the_rings_tell_good_from_bad(name, text, is_breach):
    assert bool(outward(name, ast.parse(text))) == is_breach


@pytest.mark.parametrize(
    ("name", "text", "is_breach"),
    [
        ("tpack.utils.fs", "from tpack.errors import ConfigError", False),
        ("tpack.utils.fs", "from tpack.utils.lazy import attach", False),
        ("tpack.utils.fs", "from tpack.compat.runtime import tfv1", True),
        ("tpack.input_source.queue", "from tpack.callbacks.base import Callback", False),
        ("tpack.input_source.queue", "from tpack.callbacks.group import Callbacks", True),
        ("tpack.callbacks.group", "from tpack.callbacks.base import Callback", False),
        ("tpack.callbacks.base", "from tpack.callbacks.group import Callbacks", True),
        ("tpack.callbacks", "from tpack.callbacks.group import Callbacks", True),
        ("tpack.reduction", "from tpack.reduction.base import Reducer", False),
        ("tpack.reduction.base", "from tpack.tfutils.summary import KEY", True),
        ("tpack.tower.names", "def f():\n    import tpack.train.base", True),
    ],
)
def test_the_rule_tells_good_from_bad(name, text, is_breach):
    assert bool(breaches(name, ast.parse(text))) == is_breach
