"""Lists of operation types stand in one module."""

import ast
import re

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.source import assert_none, modules_under

PLACE = "tpack.graph_copy.op_kinds"
_WORD = re.compile(r"[A-Z]\w+")
# Names that are operation types too, and are listed as something else: functions of TensorFlow 1 and Keras classes.
NOT_TYPES = ("tpack.tf1", "tpack.cli.migrating", "tpack.legacy", "tpack.as_tensorpack")


def is_type(text):
    try:
        tf.get_default_graph().op_def_for_type(text)
    except (KeyError, ValueError, RuntimeError):
        return False
    return True


def lists_of_types(tree):
    """Yield (line, text) for each list of two or more operation types, and each pattern of several."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            texts = [entry.value for entry in node.elts if isinstance(entry, ast.Constant)]
            if len(texts) > 1 and all(isinstance(text, str) and is_type(text) for text in texts):
                yield node.lineno, ", ".join(texts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "|" in node.value:
            parts = [part for part in _WORD.findall(node.value) if is_type(part)]
            if len(parts) > 2 and not re.search(r"\s", node.value):
                yield node.lineno, node.value


def test_lists_of_operation_types_are_in_one_module():
    modules = [m for m in modules_under("tpack") if m.name != PLACE and not m.name.startswith(NOT_TYPES)]
    assert_none(f"{module}:{line} {text}" for module in modules for line, text in lists_of_types(module.tree))


@pytest.mark.parametrize("source", ['X = ("MatMul", "Conv2D")', 'X = re.compile("MatMul|Conv2D|If")'])
def test_lists_and_patterns_are_found(source):
    assert list(lists_of_types(ast.parse(source)))


def test_other_lists_are_left():
    assert not list(lists_of_types(ast.parse('X = ("MatMul", "matmul")\nY = ("MatMul",)')))
