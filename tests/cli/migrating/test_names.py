"""Where names of older scripts are today, from the tables alone."""

import ast

import pytest

from tests.helpers.source import ROOT
from tpack.cli.migrating import names


@pytest.mark.parametrize(
    ("used", "outside", "has_trainer", "home"),
    [
        ({"float32", "train.Example"}, {"float32"}, False, "tensorflow.compat.v1"),
        ({"nn.relu"}, set(), False, "tpack.tf1"),
        ({"nn.relu"}, set(), True, "tensorflow.compat.v1"),
        ({"nn.relu"}, {"nn.relu"}, True, "tpack.tf1"),
        ({"nn.rnn_cell.LSTMCell"}, set(), True, "tpack.tf1"),
        ({"train.Supervisor"}, set(), True, "tpack.tf1"),
        ({"app.run", "app.flags.FLAGS"}, {"app.flags.FLAGS"}, False, "tensorflow.compat.v1"),
        ({"app.flags.DEFINE_string"}, set(), True, "tpack.tf1"),
        ({"flags"}, {"flags"}, False, "tpack.tf1"),
    ],
)
def test_tensorflow_is_its_own_where_that_is_enough(used, outside, has_trainer, home):
    assert names.home_of_tensorflow(used, outside, has_trainer=has_trainer) == home


@pytest.mark.parametrize(
    ("module", "name", "home"),
    [
        ("", "BatchData", "tpack"),
        ("train.base", "Trainer", "tpack.train"),
        ("models.softmax", "SoftMax", "tpack.models.softmax"),
        ("utils.loadcaffe", "get_caffe_pb", "tpack.utils.loadcaffe"),
        ("tfutils.summary", "add_moving_summary", "tpack.tfutils.summary"),
    ],
)
def test_modules_are_those_of_today_and_older_names_stay_with_theirs(module, name, home):
    assert names.module_of(module, name) == home
    assert names.has_module(module)


def test_modules_that_are_nowhere_are_known():
    assert not names.has_module("RL.envbase")
    assert names.has_contrib("contrib.slim")
    assert not names.has_contrib("contrib.slim.python")


@pytest.mark.parametrize(
    ("name", "is_missing"),
    [
        ("contrib.learn", False),
        ("contrib.learn.ModeKeys.TRAIN", False),
        ("contrib.learn.Experiment", True),
        ("contrib.eager.tfe", True),
        ("nn.relu", False),
    ],
)
def test_the_reason_is_given_for_what_is_missing_alone(name, is_missing):
    assert (names.reason_for_missing(name) is not None) == is_missing


def test_names_that_only_tf1_has_are_those_of_its_package():
    """``app``, ``compat`` and ``flags`` are TensorFlow's too, and ``nn`` but for its cells."""
    tree = ast.parse((ROOT / "tpack" / "tf1" / "__init__.py").read_text(encoding="utf-8"))
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.DictComp)]
    own = set(ast.literal_eval(loops[0].generators[0].iter)) - {"app", "compat", "flags", "nn"}
    assert own | {"nn.rnn_cell", "leave_default_graph"} == set(names.ONLY_IN_TF1)


@pytest.mark.parametrize(
    ("module", "name", "is_there"),
    [
        ("", "summary", True),
        ("", "InputDesc", True),
        ("", "nowhere", False),
        ("dataflow.imgaug.base", "PhotometricAugmentor", True),
        ("dataflow.imgaug.base", "VisualAugmentor", False),
        ("callbacks.graph", "RunOp", True),
        ("callbacks.graph", "Nowhere", False),
        ("utils", "fs", True),
        ("train.trainers", "SimpleTrainer", True),
    ],
)
def test_a_name_is_there_where_a_source_or_a_table_has_it(module, name, is_there):
    assert names.has_name(module, name) == is_there


def test_lost_names_are_modules_of_two_packages_and_functions_for_gpus():
    assert [names.home_of_lost_name(name) for name in ("serialize", "sesscreate", "get_nr_gpu", "nowhere")] == [
        "tpack.utils",
        "tpack.tfutils",
        "tpack.utils.gpu",
        None,
    ]
