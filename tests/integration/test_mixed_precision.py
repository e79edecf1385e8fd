"""Training in 16 bits on every builder: dtypes, agreement with float32, overflow, and checkpoints both ways."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.mixed_precision import SIGNATURE, cost_of, data, logits_of, train
from tpack.callbacks.saver import ModelSaver
from tpack.graph_builder.precision import LossScaling, PrecisionPolicy
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.input_source.tensors import TensorInput
from tpack.predict import OfflinePredictor, PredictConfig
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.wrappers.conversion import WireDtypeReducer
from tpack.tfutils.checkpoint import CheckpointReader
from tpack.tfutils.sessinit import SmartInit
from tpack.train.single_cost import BuilderTrainer
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerHierarchical,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

WEIGHTS = ("conv/W", "table", "fc/W", "fc/b")

SYNCHRONOUS = {
    "simple": lambda **p: SimpleTrainer(**p),
    "ps-cpu": lambda **p: SyncMultiGPUTrainerParameterServer(4, "cpu", **p),
    "ps-gpu": lambda **p: SyncMultiGPUTrainerParameterServer(4, "gpu", **p),
    "replicated": lambda **p: SyncMultiGPUTrainerReplicated(4, **p),
    "hierarchical": lambda **p: SyncMultiGPUTrainerHierarchical(4, **p),
    "ring": lambda **p: SyncMultiGPUTrainerReplicated(4, mode="xring", **p),
    "wire": lambda **p: SyncMultiGPUTrainerReplicated(4, mode=WireDtypeReducer(RoundRobinReducer(), "bfloat16"), **p),
    "collective": lambda **p: BuilderTrainer(SyncMultiGPUReplicatedBuilder(4, reducer=CollectiveReducer()), **p),
}
BUILDERS = {**SYNCHRONOUS, "async": lambda **p: AsyncMultiGPUTrainer(4, **p)}

# How many sets of variables there are where it is not one for each of four towers.
NUM_REPLICAS = {"simple": 1, "ps-cpu": 1, "ps-gpu": 1, "async": 1}

# The types of operations that take most of the time, and those of their gradients.
HEAVY = {"MatMul", "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"}


def sgd():
    return tf.train.GradientDescentOptimizer(0.1)


@functools.cache
def one_tower(precision, steps=4):
    return train(lambda: SimpleTrainer(precision=precision), steps=steps, optimizer=sgd)


def assert_replicas_are_equal(run, num_towers):
    assert len(run.towers) == num_towers
    for tower in run.towers:
        assert {n: v.tobytes() for n, v in tower.items()} == {n: v.tobytes() for n, v in run.towers[0].items()}


def assert_near(run, oracle, atol):
    for name in WEIGHTS:
        np.testing.assert_allclose(run.saved[name], oracle.saved[name], atol=atol, err_msg=name)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("builder", BUILDERS)
def test_every_builder_trains_in_16_bits_on_float32_variables(builder, precision):
    run = train(lambda: BUILDERS[builder](precision=precision), optimizer=sgd)
    heavy = [op for op in run.graph.get_operations() if op.type in HEAVY]
    assert {op.type for op in heavy} == HEAVY
    assert {op.get_attr("T") for op in heavy} == {tf.as_dtype(precision)}
    assert {value.dtype for value in run.saved.values() if value.dtype.kind in "fV"} == {np.dtype("float32")}
    # An asynchronous tower may use weights that others have updated in the same step.
    in_float32 = one_tower("float32")
    assert_near(run, in_float32, atol=0.02 if builder == "async" else 3e-3)
    moved = max(np.abs(run.saved[name] - in_float32.saved[name]).max() for name in WEIGHTS)
    assert moved > 0
    assert_replicas_are_equal(run, NUM_REPLICAS.get(builder, 4))


@pytest.mark.parametrize("builder", [name for name in SYNCHRONOUS if name != "simple"])
def test_towers_agree_with_one_tower(builder):
    run = train(lambda: BUILDERS[builder](precision="bfloat16"), optimizer=sgd)
    assert_near(run, one_tower("bfloat16"), atol=3e-3)


@pytest.mark.parametrize("builder", SYNCHRONOUS)
def test_overflow_in_one_tower_skips_the_step_in_all(builder):
    # The batch is the same at each step: four steps of which one is skipped are three.
    tower = 0 if builder == "simple" else 2
    run = train(lambda: BUILDERS[builder](precision="float16"), steps=4, overflow=(1, tower))
    clean = train(lambda: BUILDERS[builder](precision="float16"), steps=4, overflow=(3, tower))
    assert_replicas_are_equal(run, NUM_REPLICAS.get(builder, 4))
    for name in (*WEIGHTS, "fc/W/Adam", "table/Adam_1", "beta1_power"):
        assert run.saved[name].tobytes() == clean.saved[name].tobytes(), name
    np.testing.assert_allclose(run.saved["beta1_power"], 0.9**4, rtol=1e-6)
    for each in (run, clean):
        assert each.saved["global_step"] == 4
        assert each.saved["loss_scale/skipped_steps"] == 1
        assert each.saved["loss_scale/scale"] == 2.0**14
    assert run.scalars["skipped_steps"] == [1, 1]
    assert clean.scalars["skipped_steps"] == [0, 1]
    assert run.scalars["loss_scale"] == [2.0**14, 2.0**14]


def test_overflow_in_one_asynchronous_tower_skips_its_update_alone():
    run = train(lambda: BUILDERS["async"](precision="float16"), steps=4, overflow=(1, 2))
    assert run.saved["loss_scale/skipped_steps"] == 1
    np.testing.assert_allclose(run.saved["beta1_power"], 0.9 ** (4 * 4 - 1 + 1), rtol=1e-5)
    assert all(np.isfinite(run.saved[name]).all() for name in WEIGHTS)


@pytest.mark.parametrize("wire", [None, "float16"])
def test_a_factor_that_is_too_large_finds_its_way_down(wire):
    mode = wire and WireDtypeReducer(RoundRobinReducer(), wire)
    policy = PrecisionPolicy("float16", LossScaling(initial=2.0**24))
    run = train(lambda: SyncMultiGPUTrainerReplicated(2, mode=mode, precision=policy), steps=16, optimizer=sgd)
    skipped = int(run.saved["loss_scale/skipped_steps"])
    assert 4 < skipped < 14
    assert run.saved["loss_scale/scale"] == 2.0 ** (24 - skipped)
    # What is learned in the other steps is what is learned without scaling.
    assert_near(run, one_tower("float32", 16 - skipped + skipped % 2), atol=0.06)


def test_the_scaling_is_an_option_and_its_state_is_restored(log_dir):
    policy = PrecisionPolicy("float16", LossScaling(initial=4.0, growth_steps=3))

    def make():
        return SyncMultiGPUTrainerReplicated(2, precision=policy)

    train(make, steps=4, callbacks=[ModelSaver()])
    whole = train(make, steps=8)
    resumed = train(make, steps=8, session_init=SmartInit(f"{log_dir}/model-4"), starting_epoch=3)
    assert whole.saved["loss_scale/scale"] == 16.0
    assert whole.saved["loss_scale/finite_steps"] == 2
    assert {n: v.tobytes() for n, v in resumed.saved.items()} == {n: v.tobytes() for n, v in whole.saved.items()}


@pytest.mark.parametrize(("first", "second"), [("float32", "float16"), ("float16", "float32"), ("bfloat16", "float32")])
def test_checkpoints_move_between_precisions(log_dir, first, second):
    before = train(lambda: SimpleTrainer(precision=first), steps=2, callbacks=[ModelSaver()])
    reader = CheckpointReader(f"{log_dir}/model-2")
    assert {reader.read(name).dtype.name for name in reader.shapes} <= {"float32", "int64"}
    after = train(
        lambda: SyncMultiGPUTrainerReplicated(2, precision=second),
        steps=4,
        session_init=SmartInit(f"{log_dir}/model-2"),
        starting_epoch=2,
    )
    assert after.saved["global_step"] == 4
    np.testing.assert_allclose(after.saved["beta1_power"], 0.9**5, rtol=1e-6)
    assert not np.array_equal(after.saved["fc/W"], before.saved["fc/W"])
    # Adam moves a weight by up to 0.02 a step, whichever sign a gradient of about zero has.
    assert_near(after, train(SimpleTrainer), atol=0.05)


def test_prediction_computes_as_training_does(log_dir):
    train(lambda: SimpleTrainer(precision="bfloat16"), steps=2, callbacks=[ModelSaver()])

    def predict(precision):
        predictor = OfflinePredictor(
            PredictConfig(
                tower_func=lambda image, ids: logits_of(image, ids),
                input_signature=SIGNATURE[:2],
                output_names=["logits"],
                session_init=SmartInit(f"{log_dir}/model-2"),
                precision=precision,
            )
        )
        with predictor.sess:
            return predictor(*data()[:2])[0]

    low, high = predict("bfloat16"), predict("float32")
    assert (low.dtype, high.dtype) == (tf.bfloat16.as_numpy_dtype, np.float32)
    np.testing.assert_allclose(low.astype("float32"), high, atol=0.05)


def test_predictors_of_a_trainer_compute_as_training_does(graph):
    trainer = SyncMultiGPUTrainerReplicated(2, precision="bfloat16")
    inputs = TensorInput(lambda: [tf.constant(part) for part in data()])
    trainer.setup_graph(SIGNATURE, inputs, cost_of(None), sgd)
    predictor = trainer.get_predictor(["image", "ids"], ["logits", "logits32"])
    assert [tensor.dtype for tensor in predictor.input_tensors] == [tf.float32, tf.int32]
    assert [tensor.dtype for tensor in predictor.output_tensors] == [tf.bfloat16, tf.float32]


def test_a_linear_model_follows_the_numbers_of_16_bits():
    bfloat16 = tf.bfloat16.as_numpy_dtype
    rng = np.random.default_rng(1)
    # In 16 bits small multiples of 1/4 are left, whose sums and products are exact in whatever order a CPU adds.
    x = rng.integers(-1, 2, size=(4, 3)).astype("float32") * np.float32(1 + 2**-11)
    y = rng.integers(-2, 3, size=(4, 1)).astype("float32") + np.float32(0.25)
    w = rng.integers(-4, 5, size=(3, 1)).astype("float32") / 4 * np.float32(1 + 2**-11)

    def cost(image, target):
        prediction = tf.cast(image @ tf.get_variable("w", initializer=w), tf.float32)
        return tf.reduce_sum(tf.square(prediction - target)) / 2

    signature = [tf.TensorSpec([None, 3], tf.float32, "image"), tf.TensorSpec([None, 1], tf.float32, "target")]
    expected = w.copy()
    with tf.Graph().as_default() as graph:
        trainer = SimpleTrainer(precision=PrecisionPolicy("bfloat16", uncast_inputs=("target",)))
        trainer.setup_graph(signature, TensorInput(lambda: [tf.constant(x), tf.constant(y)]), cost, sgd)
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            session.run(trainer.train_op)
            low = x.astype(bfloat16).astype("float32")
            prediction = (low @ expected.astype(bfloat16).astype("float32")).astype(bfloat16).astype("float32")
            error = (prediction - y).astype(bfloat16).astype("float32")
            expected -= np.float32(0.1) * (low.T @ error).astype(bfloat16).astype("float32")
            in_32_bits = w - np.float32(0.1) * (x.T @ (x @ w - y))
            assert np.abs(expected - in_32_bits).max() > 1e-5
            np.testing.assert_allclose(session.run(tf.trainable_variables()[0]), expected, rtol=1e-6)
