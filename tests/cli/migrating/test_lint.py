"""What is found in a source without knowing what it imports."""

import ast

import pytest

from tpack.cli.migrating import lint


@pytest.mark.parametrize(
    "source", ["xrange = range\nxrange(3)", "def long(x): pass\nlong(1)", "def f(unicode): return unicode", "x.unicode"]
)
def test_names_that_a_source_binds_are_its_own(source):
    assert lint.python_2(ast.parse(source)) == []


def test_python_2_is_found_with_its_lines():
    found = lint.python_2(ast.parse("f(unicode)\nf(xrange)\n"))
    assert found == [lint.Note(1, "unicode is Python 2's; use 2to3"), lint.Note(2, "xrange is Python 2's; use 2to3")]


@pytest.mark.parametrize(
    ("source", "is_older"),
    [("xrange(1)", True), ("from six.moves import xrange", False), ("def f(range): xrange(range)", False)],
)
def test_calls_of_xrange_are_not_told_where_they_can_be_range(source, is_older):
    tree = ast.parse(source)
    assert lint.is_xrange_older(tree) == is_older
    assert bool(lint.python_2(tree)) == ("f(range)" in source)


@pytest.mark.parametrize("device", ["/gpu:0", "/device:GPU:1", "gpu:0", "/job:worker/task:0/gpu:3"])
def test_devices_that_are_fixed_are_told(device):
    (note,) = lint.looks(ast.parse(f"f({device!r})"))
    assert note.text.startswith(f"the device {device!r} is fixed")


def test_what_is_told_is_in_the_order_of_lines_and_each_line_once():
    source = "x.has_key(1)\nimport imp\nx.shape[0].value * y.shape[1].value\nf('/gpu:0')\n"
    assert [note.line for note in lint.looks(ast.parse(source))] == [1, 2, 3, 4]


def test_names_without_a_binding_are_found_with_their_lines():
    source = (
        "from tensorpack import *\n"
        "import os\n"
        "class Model(ModelDesc):\n"
        "    def optimizer(self, rate):\n"
        "        return [optimizer.scale(os, rate) for _ in range(3)]\n"
        "def local():\n"
        "    summary = 1\n"
        "    return summary, ModelDesc\n"
        "def declares():\n"
        "    global made\n"
        "    made = 1\n"
        "print(made, __file__)\n"
    )
    assert lint.unbound(source, ast.parse(source)) == {"ModelDesc": 3, "optimizer": 5}
