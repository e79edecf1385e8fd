import importlib.util

import tensorflow.compat.v1 as tf

from tests.helpers.source import ROOT
from tpack.cli.reduce import MODELS, resnet50_shapes


def test_shapes_are_those_of_the_model(graph):
    spec = importlib.util.spec_from_file_location("resnet50", ROOT / "benchmarks" / "resnet50.py")
    resnet50 = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(resnet50)
    resnet50.logits(tf.placeholder(tf.float32, [1, 64, 64, 3]))
    assert list(resnet50_shapes()) == [tuple(variable.shape.as_list()) for variable in tf.trainable_variables()]


def test_resnet50_has_161_gradients_of_25_million_elements():
    sizes = [tf.TensorShape(shape).num_elements() for shape in MODELS["resnet50"]()]
    assert (len(sizes), sum(sizes)) == (161, 25557032)
