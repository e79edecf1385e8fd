"""What is fed to a model that is exported."""

import tensorflow.compat.v1 as tf

import tpack.tf1.estimator as estimator
from tpack.estimator import inputs
from tpack.tf1.estimator import export


def test_a_single_feature_gets_a_name_or_stays_alone(graph):
    x = tf.placeholder(tf.float32, [None, 1])
    named, alone = export.ServingInputReceiver(x, x), export.TensorServingInputReceiver(x, x)
    assert named.features == {"feature": x}
    assert alone.features is x
    assert isinstance(named, inputs.ServingInputReceiver)
    assert export.ServingInputReceiver({"x": x}, x).features == {"x": x}


def test_namespaces_have_what_they_list():
    for module in (estimator, estimator.export, estimator.experimental):
        assert all(getattr(module, name) is not None for name in module.__all__)
    assert estimator.SessionRunHook is tf.train.SessionRunHook
    assert estimator.EstimatorSpec is not None
