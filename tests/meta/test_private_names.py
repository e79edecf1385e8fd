"""Private names of TensorFlow that tpack touches: each is in the table of `tpack.compat.private_names`."""

import ast
from collections import defaultdict
from functools import cache

from tests.helpers.source import ROOT, assert_none
from tpack.compat.private_names import FEATURES

LISTED = {name for feature in FEATURES for name in feature.names}
ATTRIBUTES = {name.rpartition(".")[2] for name in LISTED if not name.startswith("tensorflow.")}

# Of Python and of libraries other than TensorFlow, and of Keras, whose layers and models `tpack.keras` takes apart.
OTHERS = {
    "_DummyThread", "_asdict", "_current_frames", "_exit", "_fields", "_getframe", "_is_protocol",
    "_is_runtime_protocol", "_make", "_replace", "_augment_coords", "_compile_loss", "_compile_metrics",
    "_compute_loss", "_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern", "_flatten_layers",
    "_fn_kwargs",
    "_get_regularization_losses", "_keras_mask", "_learning_rate", "_losses_override", "_user_loss_weights",
}  # fmt: skip
# Of modules in the table.
OF_MODULES = {
    "_PRINT_DEPRECATION_WARNINGS",
    "_get_default_replica_mode",
    "_get_default_variable_store",
    "_graph_to_seed_dict",
}
# Looked for on objects that need not have them: without them nothing is to be done.
OPTIONAL = {
    "_assign_placeholder", "_distributed_container", "_is_initialized_op", "_key_op", "_non_slot_variable_scope",
    "_use_own_namescope_for_non_slot_vars",
}  # fmt: skip


@cache
def nodes():
    """The path and the interesting parts of each module."""
    kinds = ast.Import | ast.ImportFrom | ast.Call | ast.Attribute | ast.Name | ast.FunctionDef | ast.ClassDef
    found = []
    for path in sorted((ROOT / "tpack").rglob("*.py")):
        tree = ast.parse(path.read_text())
        found.append((path.relative_to(ROOT).as_posix(), [node for node in ast.walk(tree) if isinstance(node, kinds)]))
    return found


def defined_here():
    """Names that tpack itself gives to functions, classes, variables and attributes."""
    names = set()
    for _, parts in nodes():
        for node in parts:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
                names.add(node.attr)
    return names


LOOKING = ("getattr", "setattr", "hasattr", "delattr")


def is_own(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls", "other")


def touched():
    """Private attributes of other objects than ``self``, with the files, also those in ``getattr`` and the like."""
    found = defaultdict(set)
    for path, parts in nodes():
        for node in parts:
            name = None
            if isinstance(node, ast.Attribute) and not is_own(node.value):
                name = node.attr
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in LOOKING and len(node.args) > 1:
                name = getattr(node.args[1], "value", None)
            if isinstance(name, str) and name.startswith("_") and not name.startswith("__"):
                found[name].add(path)
    return found


def test_each_private_attribute_of_tensorflow_is_in_the_table():
    known = ATTRIBUTES | OTHERS | OF_MODULES | OPTIONAL | defined_here()
    found = touched().items()
    assert_none(f"{name} in {sorted(paths)} without a row" for name, paths in sorted(found) if name not in known)


def test_nothing_listed_is_unused():
    texts = "".join((ROOT / path).read_text() for path, _ in nodes() if not path.endswith("private_names.py"))
    listed = ATTRIBUTES | OTHERS | OF_MODULES | OPTIONAL
    assert_none(f"{name} is touched nowhere" for name in sorted(listed) if name not in texts)


def test_modules_that_are_not_public_are_in_the_table_and_imported_by_compat_alone():
    named, wrong = set(), []
    for path, parts in nodes():
        for node in parts:
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules = [node.module]
            wrong += [f"{path}: {name}" for name in modules if name.startswith("tensorflow.python")]
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "private_module":
                name = getattr(node.args[0], "value", None)
                if name is not None:
                    named.add(name)
                    wrong += [] if path.startswith("tpack/compat/") else [f"{path}: {name}"]
    assert_none(f"{each}, which is not by private_module in tpack/compat" for each in wrong)
    assert named == {name for name in LISTED if name.startswith("tensorflow.")}
