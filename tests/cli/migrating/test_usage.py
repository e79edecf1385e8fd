import ast

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper

from tpack.cli.migrating import lint
from tpack.cli.migrating.usage import Usage, after_tf, bound_by_imports


def usage_of(source, *, gives_tensorflow=False):
    tree = ast.parse(source)
    usage = Usage(bound_by_imports(tree), lint.unbound(source, tree), gives_tensorflow=gives_tensorflow)
    usage.read(MetadataWrapper(cst.parse_module(source)))
    return usage


def test_uses_have_full_names_in_functions_and_outside():
    usage = usage_of("import tensorflow as tf\nfrom a import b as c\ntf.x.y\ndef f(p):\n    return tf.z(c)\n")
    assert {"tensorflow.x.y", "tensorflow.z", "a.b"} <= usage.used
    assert "tensorflow.x.y" in usage.used_outside and "tensorflow.z" not in usage.used_outside
    assert usage.imported == {"tensorflow", "a"}
    assert usage.bound == {"c", "f", "p"}
    assert usage.tensorflow == "tf"


def test_variables_are_what_is_assigned_one():
    usage = usage_of("import tensorflow as tf\nb = tf.Variable(0.0)\nc = tf.constant(0.0)\n")
    assert usage.variables == {"b"}


@pytest.mark.parametrize(
    ("text", "gives", "wanted"),
    [
        ("tf.gfile.Exists('x')", False, "tensorflow.compat.v1"),
        ("tf.contrib.layers.conv2d", False, "tpack.tf1"),
        ("tf.gfile.Exists('x')", True, "tpack.tf1"),
    ],
)
def test_the_home_of_tensorflow_is_the_smallest_that_has_what_is_used(text, gives, wanted):
    usage = usage_of(f"import tensorflow as tf\ndef f():\n    {text}\n", gives_tensorflow=gives)
    assert usage.home_of_tensorflow() == wanted


def test_names_that_no_star_import_gives_are_noted():
    (note,) = usage_of("from tensorpack import *\nNoSuchThing()\nModelDesc\n").not_given_by_stars()
    assert note.line == 2
    assert "NoSuchThing is not there" in note.text


def test_the_roots_of_tensorflow_are_left_out():
    assert after_tf(["tensorflow.a", "tensorflow.compat.v1.b.c", "tensorpack.tfv1.d", "numpy.e"]) == {"a", "b.c", "d"}
