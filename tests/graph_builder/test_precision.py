"""What a precision means for a tower function: the dtypes of what it gets, makes and returns."""

import pickle

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line
from tpack.errors import ConfigError
from tpack.graph_builder.precision import LossScaling, PrecisionPolicy, as_precision_policy
from tpack.tower.context import PredictTowerContext, TrainTowerContext
from tpack.tower.tower_func import TowerFunc

SIGNATURE = [
    tf.TensorSpec([None, 3], tf.float32, "image"),
    tf.TensorSpec([None, 3], tf.float64, "wide"),
    tf.TensorSpec([None], tf.int32, "label"),
]


def dtypes_of_inputs(policy, tower):
    seen = []

    def model(*inputs):
        seen.extend(x.dtype for x in inputs)
        return tf.reduce_mean(tf.matmul(inputs[0], tf.get_variable("W", [3, 2])))

    func = TowerFunc(policy.wrap(model, [spec.name for spec in SIGNATURE]), SIGNATURE)
    with tower:
        output = func(*(tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in SIGNATURE))
    return seen, output, func.towers[0]


@pytest.mark.parametrize("tower", [TrainTowerContext, PredictTowerContext])
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_the_model_computes_in_the_dtype(graph, name, tower):
    seen, output, handle = dtypes_of_inputs(as_precision_policy(name), tower("tower0"))
    dtype = tf.as_dtype(name)
    assert seen == [dtype, dtype, tf.int32]
    assert {op.get_attr("T") for op in graph.get_operations() if op.type == "MatMul"} == {dtype}
    assert output.dtype == tf.float32
    assert {v.dtype.base_dtype for v in tf.global_variables()} == {tf.float32}
    assert handle.get_tensor("image").dtype == tf.float32
    assert handle.get_tensor("cost_in_float32") is output


def test_inputs_can_be_left_as_they_are(graph):
    seen, _, _ = dtypes_of_inputs(PrecisionPolicy("bfloat16", uncast_inputs=("wide",)), TrainTowerContext(""))
    assert seen == [tf.bfloat16, tf.float64, tf.int32]


def test_float32_is_the_function_itself():
    def function():
        return None

    policy = as_precision_policy("float32")
    assert policy.wrap(function, []) is function
    assert not policy.is_mixed


def test_outputs_that_are_no_cost_stay(graph):
    for output in (tf.zeros([2], tf.bfloat16), None, "text", tf.constant(3)):
        wrapped = as_precision_policy("bfloat16").wrap(lambda output=output: output, [])
        assert wrapped() is output


def test_a_wrapped_function_can_be_sent_to_another_process():
    wrapped = as_precision_policy("float16").wrap(Line().build_graph, ["x", "y"])
    assert pickle.loads(pickle.dumps(wrapped)).policy == wrapped.policy


def test_names_stand_for_policies():
    assert as_precision_policy("float32") == PrecisionPolicy("float32", None)
    assert as_precision_policy("bfloat16") == PrecisionPolicy("bfloat16", None)
    assert as_precision_policy("float16") == PrecisionPolicy("float16", LossScaling(2.0**15, 2000, 2.0))
    policy = PrecisionPolicy("bfloat16", LossScaling())
    assert as_precision_policy(policy) is policy


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_precision_policy("half"), "precision got 'half': expected one of float32, bfloat16, float16"),
        (lambda: as_precision_policy(None), "compute_dtype=None: expected text"),
        (lambda: PrecisionPolicy("float16", 1024.0), "got loss_scaling=1024.0: expected a LossScaling or None"),
        (
            lambda: PrecisionPolicy("float16", uncast_inputs="label"),
            "got uncast_inputs='label': expected a list of text",
        ),
        (
            lambda: PrecisionPolicy("float16", uncast_inputs=("z",)).wrap(print, ["x", "y"]),
            r"uncast_inputs with \['z'\]: expected some of \['x', 'y'\]",
        ),
    ],
)
def test_what_cannot_be_understood_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
