"""Combinations with batches of other sizes, normalisation, Keras models, evaluation and Estimators."""

from typing import Any

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.combined_training import (
    Net,
    assert_near,
    examples,
    moving_average,
    net,
    plain,
    shares,
    trained,
    weight,
)
from tests.trials.combinations_of_steps import NAMES, adam, replicated
from tpack.callbacks.base import Callback
from tpack.callbacks.inference.inferencers import ScalarStats
from tpack.callbacks.inference.runners import DataParallelInferenceRunner, InferenceRunner
from tpack.callbacks.run_op import RunUpdateOps
from tpack.callbacks.weight_averages.ema import EMA
from tpack.compat.runtime import eager_mode
from tpack.dataflow.sources import DataFromList
from tpack.estimator.replicate_model_fn import replicate_model_fn
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.keras.training import fit
from tpack.models.batch_norm import BatchNorm
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerParameterServer


def _uneven(batches: Any, sizes: Any) -> DataFromList:
    """Return batches of towers of other sizes."""
    ends = np.cumsum(sizes)[:-1]
    return DataFromList(
        [list(part) for batch in batches for part in zip(*(np.split(each, ends) for each in batch), strict=True)],
        shuffle=False,
    )


def normalised(x: Any, ids: Any, y: Any) -> Any:
    x = BatchNorm("bn", x, sync_statistics=True, momentum=0.5)
    return net(x, ids, y)


def _plainly_normalised(sizes: Any) -> Any:
    def cost(x: Any, ids: Any, y: Any) -> Any:
        """Return the mean of the towers' costs, each of its rows of the batch normalised as one."""
        beta = tf.get_variable("bn/beta", [4], tf.float64, tf.zeros_initializer())
        gamma = tf.get_variable("bn/gamma", [4], tf.float64, tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [0])
        x = tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-5)
        costs = []
        for part in zip(*(tf.split(each, list(sizes)) for each in (x, ids, y)), strict=True):
            with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                costs.append(net(*part))
        return tf.add_n(costs) / len(sizes)

    return cost


def batches_of_other_sizes_normalised_over_towers() -> None:
    data, sizes = examples(4), (7, 2, 3)
    wanted = plain(data, adam, _plainly_normalised(sizes))[-1]
    averages = moving_statistics(data, 0.5)
    for make in (replicated(3), lambda: SyncMultiGPUTrainerParameterServer(3)):
        got = trained(make, Net(adam, normalised), _uneven(data, sizes), 4, RunUpdateOps())
        assert_near(got.last, {name: wanted[name] for name in (*NAMES, "bn/beta", "bn/gamma")}, 1e-8, 1e-10)
        assert_near(got.last, averages, 1e-8)


def moving_statistics(data: Any, momentum: float) -> Any:
    mean, variance = np.zeros(4), np.ones(4)
    for x, _, _ in data:
        mean = momentum * mean + (1 - momentum) * x.mean(0)
        variance = momentum * variance + (1 - momentum) * x.var(0, ddof=1)
    return {"bn/mean/EMA": mean, "bn/variance/EMA": variance}


def evaluation_of_averages_with_smaller_last_batches_on_towers() -> None:
    data, validation = examples(5), examples(3)
    x, ids, y = (np.concatenate(parts)[:31] for parts in zip(*validation, strict=True))

    def cost(*inputs: Any) -> Any:
        loss = net(*inputs)
        output = tf.get_default_graph().get_tensor_by_name(loss.op.name.rpartition("cost")[0] + "output:0")
        tf.reduce_sum(tf.square(output - inputs[2]), 1, name="errors")
        return loss

    trajectory = plain(data, adam)
    for runner in (
        lambda *each: InferenceRunner(*each, batch_size=12),
        lambda *each: DataParallelInferenceRunner(*each, 3, batch_size=4),
    ):
        ema, found = EMA(0.6), _Statistics()
        evaluated = ema.evaluate(runner((x, ids, y), ScalarStats("errors", prefix="average")))
        weights = runner((x, ids, y), ScalarStats("errors", prefix="now"))
        trained(replicated(2), Net(adam, cost), shares(data, 2), 5, ema, evaluated, weights, found)
        for step in range(5):
            means = {name: moving_average([each[name] for each in trajectory[: step + 1]], 0.6) for name in NAMES}
            for key, values in (("average_errors", means), ("now_errors", trajectory[step])):
                errors = np.square(_outputs(values, x, ids) - y).sum(1)
                np.testing.assert_allclose(found.epochs[step][key], errors.mean(), 1e-7, err_msg=f"{key} {step}")


class _Statistics(Callback):
    reads_statistics = True

    def __init__(self) -> None:
        self.epochs: list[Any] = []

    def _trigger_epoch(self) -> None:
        self.epochs.append({key: self.trainer.monitors.get_latest(key) for key in ("average_errors", "now_errors")})


def _outputs(weights: Any, x: Any, ids: Any) -> Any:
    return np.tanh(x @ weights["dense/W"] + weights["dense/b"]) @ weights["out/W"] + weights["table"][ids].sum(1)


def python_functions_in_several_steps_a_call() -> None:
    seen = []

    def cost(x: Any, ids: Any, y: Any) -> Any:
        def look(values: Any) -> Any:
            seen.append(values.sum())
            return values * 2

        doubled = tf.py_func(look, [x], x.dtype)
        doubled.set_shape(x.shape)
        return net(doubled * weight("scale", 4), ids, y)

    data = examples(6)
    wanted = plain(data, adam, lambda x, ids, y: net(2 * x * weight("scale", 4), ids, y))[-1]
    for call in (1, 4):
        seen.clear()
        got = trained(replicated(2), Net(adam, cost), shares(data, 2), 6, steps_per_epoch=6, steps_per_call=call)
        np.testing.assert_allclose(sorted(np.add.reduceat(sorted(seen), [0])), [sum(x.sum() for x, _, _ in data)])
        assert_near(got.last, {name: wanted[name] for name in NAMES})


def shared_keras_layers_on_two_towers() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=(24, 4)).astype("float32") for _ in range(2))
    y = rng.normal(size=(24, 1)).astype("float32")

    def make() -> Any:
        keras.utils.set_random_seed(0)
        first, second = keras.Input([4], name="a"), keras.Input([4], name="b")
        shared = keras.layers.Dense(5, activation="tanh")
        joined = keras.layers.Concatenate()([shared(first), shared(second), shared(first + second)])
        model = keras.Model([first, second], keras.layers.Dense(1)(joined))
        model.compile(keras.optimizers.SGD(0.125, momentum=0.5, clipnorm=0.5), "mse")
        return model

    with eager_mode():
        model, other = make(), make()
        other.fit([a, b], y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        wanted = other.get_weights()
    flow = DataFromList([list(each) for each in zip(*(np.split(v, 6) for v in (a, b, y)), strict=True)], shuffle=False)
    fit(model, flow, towers=2, epochs=2, monitors=[], log_dir="run")
    with eager_mode():
        for ours, theirs in zip(model.get_weights(), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


def keras_clipping_by_the_norm_of_all_on_two_towers() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(48, 4)).astype("float32"), rng.normal(size=(48, 1)).astype("float32")

    def make() -> Any:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input([4]), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.05, global_clipnorm=0.5)
        model.compile(optimizer, "mse")
        return model

    with eager_mode():
        model, other = make(), make()
        other.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        wanted = other.get_weights()
    flow = DataFromList([list(each) for each in zip(*(np.split(v, 12) for v in (x, y)), strict=True)], shuffle=False)
    fit(model, flow, towers=2, epochs=2, monitors=[], log_dir="run")
    with eager_mode():
        for ours, theirs in zip(model.get_weights(), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-3, 1e-4)


def dropout_of_keras_on_two_towers() -> None:
    """Towers draw other numbers than each other, and a second run with the seed the same ones."""

    def cost(x: Any, ids: Any, y: Any) -> Any:
        dropped = keras.layers.Dropout(0.5, seed=3)(tf.ones_like(x), training=True)
        tf.identity(dropped, name="mask")
        return net(x * dropped, ids, y)

    class Masks(Callback):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def _before_run(self, ctx: Any) -> Any:
            return [tower.get_tensors(["mask"])[0] for tower in self.trainer.towers.training()]

        def _after_run(self, ctx: Any, values: Any) -> None:
            self.seen.append(np.array(values.results))

    runs = []
    for number in range(2):
        masks = Masks()
        desc = Net(adam, cost, tf.float32)
        data = shares(examples(3, dtype="float32"), 2)
        trained(replicated(2), desc, data, 3, RunUpdateOps(), masks, seed=5, log_dir=f"run{number}")
        runs.append(np.array(masks.seen))
    np.testing.assert_array_equal(*runs)
    assert (runs[0][:, 0] != runs[0][:, 1]).any(), "the towers dropped the same"
    assert (runs[0][0] != runs[0][1]).any(), "two steps dropped the same"


def estimator_on_towers_with_rows_and_clipping() -> None:
    data = examples(4)

    def clip(pairs: Any) -> Any:
        gradients, variables = zip(*pairs, strict=True)
        return list(zip(tf.clip_by_global_norm(gradients, 0.05)[0], variables, strict=True))

    class Clipping(tf.train.AdamOptimizer):
        def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            return super().apply_gradients(clip(list(grads_and_vars)), *args, **kwargs)

    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        loss = net(features["x"], features["ids"], labels)
        train = TowerOptimizer(Clipping(0.05)).minimize(loss, tf.train.get_or_create_global_step())
        return (
            tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)
            if hasattr(tf, "estimator")
            else _spec(mode, loss, train)
        )

    wanted = plain(data, adam, change=clip)[-1]
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as session:
        inputs = [tf.placeholder(each.dtype, [12, *each.shape[1:]]) for each in data[0]]
        replicated_fn = replicate_model_fn(model_fn, devices=[f"/device:CPU:{k}" for k in range(3)])
        spec = replicated_fn({"x": inputs[0], "ids": inputs[1]}, inputs[2], "train")
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        for batch in data:
            session.run(spec.train_op, dict(zip(inputs, batch, strict=True)))
        got = {each.op.name: session.run(each) for each in tf.global_variables()}
    assert_near(got, {name: wanted[name] for name in NAMES})


def _spec(mode: Any, loss: Any, train: Any) -> Any:
    from tpack.estimator.spec import EstimatorSpec  # noqa: PLC0415

    return EstimatorSpec(mode, loss=loss, train_op=train)


def one_tower_without_rows_of_some_batches() -> None:
    """A table of which a batch reads no row at all."""
    data = [[x, ids * 0, y] for x, ids, y in examples(3)]
    wanted = plain(data, adam)[-1]
    for make, towers in ((SimpleTrainer, 1), (replicated(2), 2)):
        got = trained(make, Net(adam), shares(data, towers), 3)
        assert_near(got.last, {name: wanted[name] for name in NAMES})
