import gc
import inspect
import weakref
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, TowerError
from tpack.graph_builder.model_desc import ModelDesc, ModelDescBase
from tpack.tower.context import PredictTowerContext, TrainTowerContext


class Model(ModelDesc):
    calls = 0

    def inputs(self):
        return [tf.TensorSpec([None, 3], tf.float32, "image"), tf.placeholder(tf.int32, [None], "label")]

    def build_graph(self, image, label):
        return tf.reduce_sum(image)

    def optimizer(self):
        self.calls += 1
        return tf.train.GradientDescentOptimizer(0.1)


def test_signature_takes_specs_and_placeholders_and_leaves_no_op(graph):
    model = Model()
    assert model.get_input_signature() == [
        tf.TensorSpec([None, 3], tf.float32, "image"),
        tf.TensorSpec([None], tf.int32, "label"),
    ]
    assert model.get_input_signature() == model.get_input_signature()
    assert model.input_names == ["image", "label"]
    assert graph.get_operations() == []


def test_optimizer_is_made_once_for_each_graph():
    model = Model()
    with tf.Graph().as_default():
        first = model.get_optimizer()
        assert model.get_optimizer() is first
    with tf.Graph().as_default():
        assert model.get_optimizer() is not first
    assert model.calls == 2


def test_a_model_keeps_no_graph_alive():
    class Line(Model):
        def optimizer(self):
            optimizer = tf.train.AdamOptimizer()
            weight = tf.get_variable("w", initializer=0.0, use_resource=True)
            optimizer.minimize(tf.square(weight), var_list=[weight])
            return optimizer

    model = Line()
    with tf.Graph().as_default() as graph:
        model.get_optimizer()
    alive = weakref.ref(graph)
    del graph
    gc.collect()
    assert alive() is None
    assert model.input_names == ["image", "label"]


def test_models_in_one_graph_have_an_optimizer_each(graph):
    first, second = Model(), Model()
    assert first.get_optimizer() is not second.get_optimizer()
    assert first.get_optimizer() is first.get_optimizer()
    assert (first.calls, second.calls) == (1, 1)


def test_training_is_what_the_tower_says(graph):
    model = Model()
    with TrainTowerContext(""):
        assert model.training
    with PredictTowerContext("predict"):
        assert not model.training
    with pytest.raises(TowerError, match="no tower is current"):
        assert model.training


def test_a_model_may_have_an_attribute_training_of_its_own(graph):
    model = Model()
    model.training = "mine"
    with PredictTowerContext("predict"):
        assert model.training == "mine"
        assert not Model().training
    assert not isinstance(Model.training, bool)


@pytest.mark.parametrize("method", ["inputs", "build_graph", "optimizer"])
def test_what_a_subclass_forgot_is_named(method):
    class Empty(ModelDesc):
        pass

    with pytest.raises(ConfigError, match=rf"Empty must define {method}\(\)"):
        getattr(Empty(), method)()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([3], "returned 3: expected .* placeholders"),
        ([tf.TensorSpec([], tf.float32)], "expected a tf.TensorSpec with a name"),
        ([tf.TensorSpec([], tf.float32, "a")] * 2, "expected different names"),
    ],
)
def test_inputs_that_cannot_be_a_signature_are_errors(inputs, message):
    class Bad(ModelDescBase):
        def inputs(self):
            return inputs

    with pytest.raises(ConfigError, match=message):
        Bad().get_input_signature()


def test_type_checkers_take_any_parameters_in_a_subclass():
    # Pyright takes an override with parameters of its own where the base has both; mypy always does.
    parameters = inspect.signature(ModelDescBase.build_graph).parameters.values()
    variadic = {parameter.kind for parameter in parameters if parameter.annotation is Any}
    assert variadic == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
