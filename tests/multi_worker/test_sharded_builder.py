import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import ConfigError
from tpack.graph_builder.loss_scale import DynamicLossScale, LossScaleOptimizer
from tpack.graph_builder.precision import LossScaling
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.quantization import Int8
from tpack.multi_worker.sharded_builder import MultiWorkerShardedBuilder, is_for_each_variable
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.optimizers import AdamW
from tpack.tfutils.gradproc import GlobalNormClip, MapGradient, SummaryGradient
from tpack.tfutils.optimizer import AccumGradOptimizer, apply_grad_processors

SHAPES = {"a": [30], "b": [20], "c": [10], "d": [2]}


def grads():
    weights = [tf.get_variable(name, shape) for name, shape in SHAPES.items()]
    return [(weight * 2.0, weight) for weight in weights]


def group_of(rank, size=2):
    return WorkerGroup([f"/job:worker/task:{number}" for number in range(size)], rank, "run")


def test_workers_divide_slots_and_gradients_travel_to_owners_alone():
    slots, sent = [], []
    for rank in range(2):
        with tf.Graph().as_default() as graph:
            builder = MultiWorkerShardedBuilder(2, group_of(rank))
            optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
            builder.build(grads, lambda optimizer=optimizer: optimizer)
            slots.append({slot.op.name: slot.device for slot in builder.slots})
            puts = [op for op in graph.get_operations() if op.type == "QueueEnqueueV2"]
            vectors = [each for op in puts for each in op.inputs if each.dtype == tf.float32]
            sent.append(sum(int(each.shape.num_elements()) for each in vectors))
    assert slots == [
        {"a/Momentum": "/device:CPU:0", "d/Momentum": "/device:CPU:1"},
        {"b/Momentum": "/device:CPU:0", "c/Momentum": "/device:CPU:1"},
    ]
    # What is the other's goes there as gradients, and what is one's own as values: as much as an all-reduce sends.
    assert sent == [sum(size for (size,) in SHAPES.values())] * 2


def test_weights_of_owners_are_not_encoded(graph):
    builder = MultiWorkerShardedBuilder(1, group_of(0), exchange=Exchange(codec=Int8()))
    with pytest.raises(ConfigError, match="Exchange got codec=Int8.* with shard_optimizer=True: expected None"):
        builder.build(grads, lambda: tf.train.GradientDescentOptimizer(0.1))


def test_an_optimizer_that_may_need_all_gradients_gets_all_sums(graph):
    builder = MultiWorkerShardedBuilder(1, group_of(0))
    optimizer = apply_grad_processors(tf.train.MomentumOptimizer(0.1, 0.9), [GlobalNormClip(1.0)])
    builder.build(grads, lambda: optimizer)
    puts = [op for op in graph.get_operations() if op.type == "QueueEnqueueV2"]
    sizes = [int(each.shape.num_elements()) for op in puts for each in op.inputs if each.dtype == tf.float32]
    assert sorted(sizes) == [32, 62]
    assert [slot.op.name for slot in builder.slots] == ["a/Momentum", "d/Momentum"]


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: tf.train.AdamOptimizer(0.1), True),
        (lambda: AdamW(0.1, weight_decay=0.1), True),
        (lambda: apply_grad_processors(tf.train.AdamOptimizer(0.1), [MapGradient(tf.sign)]), True),
        (lambda: apply_grad_processors(tf.train.AdamOptimizer(0.1), [GlobalNormClip(1.0)]), False),
        (lambda: apply_grad_processors(tf.train.AdamOptimizer(0.1), [SummaryGradient()]), False),
        (lambda: AccumGradOptimizer(tf.train.AdamOptimizer(0.1), 2), False),
        (lambda: LossScaleOptimizer(tf.train.AdamOptimizer(0.1), DynamicLossScale(LossScaling())), False),
        (lambda: type("Own", (tf.train.AdamOptimizer,), {"__module__": "script"})(0.1), False),
    ],
)
def test_optimizers_that_are_known_to_treat_each_variable_by_itself(graph, make, wanted):
    assert is_for_each_variable(make()) is wanted


def test_fewer_variables_than_workers_are_refused(graph):
    builder = MultiWorkerShardedBuilder(1, group_of(0, 5))
    with pytest.raises(
        ConfigError, match=r"^shard_optimizer got 4 trained variables: expected at least one for each of 5"
    ):
        builder.build(grads, lambda: tf.train.GradientDescentOptimizer(0.1))


def test_workers_with_divided_state_end_with_the_bits_of_those_with_all_of_it(tmp_path):
    names = ["sgd", "momentum", "adam", "rmsprop"]
    found = values_of(
        run_workers("train_sharded", 2, tmp_path, arguments={"towers": 2, "optimizers": names, "size": 2})
    )
    for name in names:
        (whole, of_chief), (_, of_other) = found[0], found[1]
        saved = {key for key in whole[name] if not key.startswith(("tower", "arrivals"))}
        assert saved <= of_chief[name].keys()
        for key in saved:
            np.testing.assert_array_equal(of_chief[name][key], whole[name][key], err_msg=f"{name}: {key}")
        for key in of_other[name].keys() & of_chief[name].keys():
            np.testing.assert_array_equal(of_other[name][key], of_chief[name][key], err_msg=f"{name}: {key}")


def test_a_checkpoint_of_divided_state_is_that_of_whole_state_and_goes_on_in_any_trainer(tmp_path):
    def run(directory, max_epoch, num_workers, shard_optimizer):
        arguments = {"directory": str(tmp_path / directory), "max_epoch": max_epoch, "shard_optimizer": shard_optimizer}
        return values_of(run_workers("save_sharded", num_workers, tmp_path / "jobs", arguments=arguments))[0]

    whole = run("whole", 4, 2, False)
    run("parts", 2, 2, True)
    run("parts", 3, 2, False)
    parts = run("parts", 4, 2, True)
    saved = [tf.train.load_checkpoint(str(tmp_path / name / "model-4")) for name in ("whole", "parts")]
    shapes = saved[0].get_variable_to_shape_map()
    assert shapes == saved[1].get_variable_to_shape_map()
    for key in shapes.keys() & whole.keys():
        np.testing.assert_array_equal(saved[1].get_tensor(key), saved[0].get_tensor(key), err_msg=key)
        np.testing.assert_array_equal(parts[key], whole[key], err_msg=key)
