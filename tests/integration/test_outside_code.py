"""What the trial of outside code changes in programs, and what it counts as their steps."""

import ast

import pytest
import tensorflow.compat.v1 as tf

from tests.trials.outside_counting import StepCounter, trains
from tests.trials.outside_recipe import Edit
from tests.trials.outside_rewriting import rewrite, rewrite_folder

LINES = [
    ("import tensorflow as tf", "import tpack.tf1 as tf"),
    ("    import tensorflow  # late", "    import tpack.tf1 as tensorflow"),
    ("import tensorflow.contrib.slim as slim", "import tpack.tf1.contrib.slim as slim"),
    ("from tensorflow.contrib.rnn import LSTMCell", "from tpack.tf1.contrib.rnn import LSTMCell"),
    ("from tensorflow.contrib.layers.python.layers import utils", "from tpack.tf1.contrib.layers import utils"),
    ("from tensorflow.python.layers.core import Dense", "from tpack.tf1.layers import Dense"),
    ("from tensorflow.python.ops import math_ops", "from tensorflow.python.ops import math_ops"),
    ("from tensorflow.core.framework import summary_pb2", "from tensorflow.core.framework import summary_pb2"),
    ("import tensorpack.tfutils.symbolic_functions as sf", "import tensorpack.tfutils.symbolic_functions as sf"),
    ("from tensorpack import *", "from tensorpack import *"),
    ("x = y.tostring()", "x = y.tobytes()"),
    ("for k in d.iteritems(): pass", "for k in d.items(): pass"),
]


@pytest.mark.parametrize(("line", "wanted"), LINES)
def test_import_lines_are_those_of_tpack(line, wanted):
    indented = line.startswith(" ")
    text, counts = rewrite(f"if x:\n{line}\n" if indented else f"{line}\n")
    assert text.splitlines()[-1] == wanted
    assert sum(counts.values()) == (line != wanted)


def test_python_2_becomes_python_3(tmp_path):
    source = "try:\n\tprint 'loss', 0.5\n\tprint\nexcept ValueError, error:\n    print error, 0777\nprint('a'), 'b'\n"
    (tmp_path / "old.py").write_text(source)

    counts = rewrite_folder(tmp_path)

    text = (tmp_path / "old.py").read_text()
    ast.parse(text)
    assert "print('loss', 0.5)" in text
    assert "except ValueError as error:" in text
    assert counts == {"Python 2": 6}


def test_an_edit_that_finds_nothing_is_an_error(tmp_path):
    (tmp_path / "train.py").write_text("epochs = 90\n")
    assert Edit("*.py", r"epochs = \d+", "epochs = 1").apply(tmp_path) == 1
    assert (tmp_path / "train.py").read_text() == "epochs = 1\n"
    with pytest.raises(LookupError, match="has nothing like"):
        Edit("*.py", r"epochs = \d\d", "epochs = 1").apply(tmp_path)


@pytest.mark.parametrize("use_resource", [True, False])
def test_steps_are_runs_that_change_trainable_variables(graph, use_resource):
    variable = tf.get_variable("v", [2], use_resource=use_resource)
    average = tf.get_variable("a", [2], trainable=False, use_resource=use_resource)
    loss = tf.reduce_sum(tf.square(variable))
    saver = tf.train.Saver()
    with tf.control_dependencies([tf.assign(variable, tf.stop_gradient(variable) * 0.5)]):
        by_hand = tf.identity(loss)

    runs = {
        tf.train.GradientDescentOptimizer(0.1).minimize(loss).name: True,
        tf.train.AdamOptimizer(0.1).minimize(loss).name: True,
        by_hand.name: True,
        loss.name: False,
        tf.global_variables_initializer().name: False,
        tf.assign(average, [1.0, 2.0]).op.name: False,
        saver.saver_def.restore_op_name: False,
    }
    assert {name: trains(graph, [name]) for name in runs} == runs


def test_a_counter_tells_of_losses_that_are_no_numbers(graph):
    seen = []
    counter = StepCounter(lambda counter: seen.append((counter.num_steps, counter.num_not_finite)))
    variable = tf.get_variable("v", [])
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(variable)

    counter.look_at(graph, [train_op.name], [None, 0.5])
    counter.look_at(graph, [variable.name], [0.5])
    counter.look_at(graph, [train_op.name], [None, float("nan")])

    assert seen == [(1, 0), (2, 1)]
