"""A tower function and what it remembers."""

import pickle

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.compat.runtime import eager_mode
from tpack.errors import ConfigError, GraphBuildError, TowerError
from tpack.tower.context import PredictTowerContext, TowerContext, TrainTowerContext
from tpack.tower.tower_func import InputSignature, TowerFunc

SIGNATURE = [tf.TensorSpec([None, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]


def model(image, label):
    weight = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    return tf.reduce_sum(image * weight, 1) + tf.cast(label, tf.float32)


def inputs():
    return tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [None])


def test_a_call_in_each_tower_adds_a_handle(session8):
    func = TowerFunc(model, SIGNATURE)
    assert len(func.towers) == 0
    with TrainTowerContext("tower0"):
        first_inputs = inputs()
        output = func(*first_inputs)
    with PredictTowerContext("predict", reuse=True):
        func(*inputs())
    assert [handle.name for handle in func.towers] == ["tower0", "predict"]
    assert func.towers[0].output is output
    assert func.towers[0].inputs == list(first_inputs)
    session8.run(tf.global_variables_initializer())
    image, label = np.array([[1, 2], [3, 4]], "float32"), np.array([5, 6])
    for handle in func.towers:
        value = session8.run(handle.output, dict(zip(handle.inputs, (image, label), strict=True)))
        np.testing.assert_array_equal(value, image.sum(1) + label)


def test_signature_is_given_back_as_a_copy():
    func = TowerFunc(model, iter(SIGNATURE))
    func.input_signature.clear()
    assert func.input_signature == SIGNATURE
    assert func.input_names == ["image", "label"]


def test_a_call_outside_a_tower_is_an_error(graph):
    with pytest.raises(TowerError, match="no tower is current here"):
        TowerFunc(model, SIGNATURE)(*inputs())


def test_another_number_of_inputs_is_an_error(graph):
    func = TowerFunc(model, SIGNATURE)
    wanted = r"takes 2 inputs \(image, label\), got 1"
    with TowerContext("", True), pytest.raises(TowerError, match=wanted):
        func(inputs()[0])
    assert len(func.towers) == 0
    assert tf.global_variables() == []


def test_a_name_used_before_is_an_error_before_anything_is_built(graph):
    func = TowerFunc(model, SIGNATURE)
    with TowerContext("same", True):
        func(*inputs())
    with TowerContext("same", False, reuse=True):
        arguments = inputs()
        num_ops = len(graph.get_operations())
        with pytest.raises(TowerError, match="there is a tower 'same' already"):
            func(*arguments)
    assert len(graph.get_operations()) == num_ops
    assert len(func.towers) == 1


def test_towers_without_a_name_do_not_collide(graph):
    func = TowerFunc(model, SIGNATURE)
    with TowerContext("", True):
        func(*inputs())
    with TowerContext("", False, reuse=True):
        func(*inputs())
    assert [handle.is_training for handle in func.towers] == [True, False]


def test_a_call_that_fails_adds_no_handle(graph):
    def fail(image, label):
        raise ZeroDivisionError

    func = TowerFunc(fail, SIGNATURE)
    with pytest.raises(ZeroDivisionError), TowerContext("", True):
        func(*inputs())
    assert len(func.towers) == 0


def test_what_is_no_function_is_an_error():
    with pytest.raises(ConfigError, match="TowerFunc got tower_fn=3: expected a function"):
        TowerFunc(3, SIGNATURE)


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ([SIGNATURE[0], "label"], "input_signature\\[1\\]='label': expected a tf.TensorSpec with a name"),
        ([tf.TensorSpec([], tf.float32)], "input_signature\\[0\\]=a TensorSpec: expected a tf.TensorSpec with a name"),
        ([SIGNATURE[0], SIGNATURE[0]], r"input_signature=\['image', 'image'\]: expected different names"),
    ],
)
def test_a_signature_that_is_wrong_names_the_entry(signature, message):
    with pytest.raises(ConfigError, match=message):
        InputSignature(signature)


def test_a_signature_is_checked_where_it_is_made_and_copied_after(monkeypatch):
    signature = InputSignature(SIGNATURE)
    assert signature == SIGNATURE
    assert signature.names == ["image", "label"]
    monkeypatch.setattr(InputSignature, "_check", lambda self: pytest.fail("checked again"))
    func = TowerFunc(model, signature)
    for copy in (func.input_signature, func.without_towers().input_signature):
        assert (type(copy), copy) == (InputSignature, SIGNATURE)
        copy.clear()
    assert func.input_names == ["image", "label"]


@pytest.mark.parametrize("renew", [lambda func: func.without_towers(), lambda func: pickle.loads(pickle.dumps(func))])
def test_a_function_without_its_towers_can_build_them_again(graph, renew):
    func = TowerFunc(model, SIGNATURE)
    for each in (func, renew(func)):
        with tf.Graph().as_default(), TrainTowerContext("tower0"):
            each(*inputs())
        assert [handle.name for handle in each.towers] == ["tower0"]
        assert each.input_signature == SIGNATURE
        assert each.function is model


@pytest.mark.parametrize(
    ("function", "has"),
    [(lambda image: image, r"\(image\)"), (lambda a, b, c: a, r"\(a, b, c\)"), (lambda: 0, r"\(\)")],
)
def test_a_function_of_other_parameters_is_an_error_that_shows_both(function, has):
    wanted = r"<lambda> got 2 inputs \(image, label\): expected a parameter for each, and it has " + has
    with pytest.raises(ConfigError, match=wanted):
        TowerFunc(function, SIGNATURE)


@pytest.mark.parametrize("where", ["another graph", "eager"])
@pytest.mark.parametrize("make", [lambda: tf.ones([2]), lambda: tf.get_variable("elsewhere", [2])])
def test_a_tensor_of_elsewhere_is_an_error_that_says_what_to_do(graph, where, make):
    with eager_mode() if where == "eager" else tf.Graph().as_default():
        elsewhere = make()
    func = TowerFunc(lambda x: tf.add(x, elsewhere), [tf.TensorSpec([2], tf.float32, "x")])
    which = "the model got Tensor.* of another graph" if where == "another graph" else "the model got an eager tensor"
    wanted = f"^{which}: expected tensors and variables made while it is built; make it in build_graph, or use"
    with pytest.raises(GraphBuildError, match=wanted), TrainTowerContext(""):
        func(tf.placeholder(tf.float32, [2]))


def if_tensor(x):
    return x if x > 0 else -x


WITHOUT_VALUES = {
    "if": (if_tensor, TypeError, "Using a symbolic `tf.Tensor` as a Python `bool` is not allowed: "),
    "for": (lambda x: [each for each in x], TypeError, "Iterating over a symbolic `tf.Tensor` is not allowed: "),
    "numpy": (lambda x: x.numpy(), AttributeError, "'SymbolicTensor' object has no attribute 'numpy': "),
    "array": (
        lambda x: np.asarray(x),
        NotImplementedError,
        "Cannot convert a symbolic tf.Tensor .* to a numpy array: ",
    ),
    "float": (lambda x: float(x), TypeError, "(float.. argument must be .*, not )?'SymbolicTensor'.*: "),
    "variable": (
        lambda x: tf.get_variable("w", []).numpy(),
        NotImplementedError,
        "numpy.. is only available when .*: ",
    ),
}


@pytest.mark.parametrize("name", WITHOUT_VALUES)
def test_value_that_a_graph_does_not_have_yet_is_an_error_that_says_what_shows_it(graph, name):
    function, kind, message = WITHOUT_VALUES[name]
    tower = TowerFunc(function, [tf.TensorSpec([], tf.float32, "x")])
    with (
        TrainTowerContext("tower0"),
        pytest.raises(kind, match=f"^{message}the model is built once, as a graph, .*tf.print"),
    ):
        tower(tf.placeholder(tf.float32, []))


def test_other_errors_of_the_model_stay_as_they_are(graph):
    for wanted in (AttributeError("'SymbolicTensor' object has no attribute 'abc'"), TypeError("mine", 3)):

        def fail(x, error=wanted):
            raise error

        with TrainTowerContext(""), pytest.raises(type(wanted)) as caught:
            TowerFunc(fail, [tf.TensorSpec([], tf.float32, "x")])(tf.placeholder(tf.float32, []))
        assert caught.value.args == wanted.args
