"""The noise scale of gradients is that of known distributions, and of numpy, in every kind of trainer."""

import json
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.noisy_gradients import BATCH, GRADIENTS, NUM_STEPS, reported, smoothed
from tests.helpers.worker_job import run_workers, values_of
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.gradient_noise import GradientNoiseScale, noise_estimates, squared_norm
from tpack.callbacks.saver import ModelSaver
from tpack.errors import CallbackError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tfutils.sessinit import SaverRestore
from tpack.tower.context import current_tower_context
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

ALL = range(NUM_STEPS)
MEAN, DEVIATION, SIZE, EXAMPLES = 0.3, 1.5, 100, 8


class Gaussian(ModelDesc):
    """Weights whose gradient by one example is the example."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([EXAMPLES, SIZE], tf.float32, "examples")]

    def build_graph(self, examples: Any) -> Any:
        weights = tf.get_variable("w", [SIZE], initializer=tf.zeros_initializer())
        return tf.reduce_sum(tf.reduce_mean(examples, 0) * weights)

    def optimizer(self) -> Any:
        return tf.train.GradientDescentOptimizer(0.1)


def gaussian_data() -> TensorInput:
    def get_tensors() -> list[Any]:
        step = tf.cast(get_global_step_var().read_value(), tf.int32)
        seed = tf.stack([step, current_tower_context().index])
        return [MEAN + DEVIATION * tf.random.stateless_normal([EXAMPLES, SIZE], seed)]

    return TensorInput(get_tensors, size=100)


def test_the_noise_scale_of_normal_gradients_is_that_of_their_distribution(graph: Any, log_dir: Any) -> None:
    callback = GradientNoiseScale(EXAMPLES, smoothing=0.9995)
    made = SyncMultiGPUTrainerReplicated(4)
    found = reported(made, callback, Gaussian(), gaussian_data(), steps_per_epoch=500)
    square, trace = SIZE * MEAN**2, SIZE * DEVIATION**2
    assert found["gradient_noise/squared_norm"] == pytest.approx(square, rel=0.05)
    assert found["gradient_noise/trace"] == pytest.approx(trace, rel=0.05)
    assert found["gradient_noise/scale"] == pytest.approx(trace / square, rel=0.05)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SyncMultiGPUTrainerReplicated(4),
        lambda: SyncMultiGPUTrainerReplicated(4, average=False),
        lambda: SyncMultiGPUTrainerReplicated(4, mode="xring"),
        lambda: SyncMultiGPUTrainerReplicated(4, shard_optimizer=True),
        lambda: SyncMultiGPUTrainerParameterServer(4),
    ],
    ids=["mean", "sum", "ring", "sharded", "shared variables"],
)
def test_trainers_of_several_towers_report_what_numpy_has(graph: Any, log_dir: Any, make: Any) -> None:
    found = reported(make(), GradientNoiseScale(BATCH))
    assert found == pytest.approx(smoothed(4, ALL, 0.9), rel=1e-9)


@pytest.mark.parametrize("steps_per_call", [1, 3])
def test_estimates_are_those_of_every_nth_step(graph: Any, log_dir: Any, steps_per_call: int) -> None:
    callback = GradientNoiseScale(BATCH, every_steps=2, smoothing=0.5)
    found = reported(SyncMultiGPUTrainerReplicated(2), callback, steps_per_call=steps_per_call)
    assert found == pytest.approx(smoothed(2, [1, 3, 5], 0.5), rel=1e-9)


def test_steps_in_between_read_no_gradients(graph: Any, log_dir: Any) -> None:
    asked = []

    class Asked(GradientNoiseScale):
        def _before_run(self, ctx: Any) -> Any:
            asked.append(super()._before_run(ctx) is not None)

    assert reported(SyncMultiGPUTrainerReplicated(2), Asked(BATCH, every_steps=3)) == {}
    assert asked == [False, False, True] * 2


def test_compiled_steps_fetch_the_same_and_count_the_same(graph: Any, log_dir: Any) -> None:
    callback = GradientNoiseScale(BATCH, every_steps=2, smoothing=0.5)
    found = reported(SyncMultiGPUTrainerReplicated(2, compile="xla"), callback)
    assert found == pytest.approx(smoothed(2, [1, 3, 5], 0.5), rel=1e-9)


def test_a_resumed_run_goes_on_with_the_smoothed_estimates(tmp_path: Any, log_dir: Any) -> None:
    def run(callback: GradientNoiseScale, *others: Callback, **settings: Any) -> dict[str, float]:
        with tf.Graph().as_default():
            made = SyncMultiGPUTrainerReplicated(2)
            made.register_callback([ModelSaver(checkpoint_dir=str(tmp_path)), *others])
            return reported(made, callback, **{"steps_per_epoch": 3, **settings})

    first, second = GradientNoiseScale(BATCH), GradientNoiseScale(BATCH)
    run(first)
    state = json.loads(json.dumps(first.state_to_save()))
    load = CallbackFactory(before_train=lambda _: second.load_saved_state(state))
    found = run(second, load, max_epoch=2, starting_epoch=2, session_init=SaverRestore(str(tmp_path / "model-3")))
    assert found == pytest.approx(smoothed(2, ALL, 0.9), rel=1e-9)


def test_a_step_whose_gradients_are_not_finite_is_left_out(
    graph: Any, log_dir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = GRADIENTS.copy()
    bad[2, 0, 0] = np.inf
    monkeypatch.setattr("tests.helpers.noisy_gradients.GRADIENTS", bad)
    with captured_log() as lines:
        made = SyncMultiGPUTrainerReplicated(2)
        made.checks_cost = False
        found = reported(made, GradientNoiseScale(BATCH))
    monkeypatch.undo()
    assert found == pytest.approx(smoothed(2, [0, 1, 3, 4, 5], 0.9), rel=1e-9)
    assert any("leaves out steps whose gradients are not finite" in line for line in lines)


def test_without_a_positive_squared_norm_there_is_no_scale(
    graph: Any, log_dir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opposite = GRADIENTS.copy()
    opposite[:, 1] = -opposite[:, 0]
    monkeypatch.setattr("tests.helpers.noisy_gradients.GRADIENTS", opposite)

    class Noisy(GradientNoiseScale):
        """Another name in the log, which has each message once."""

    with captured_log() as lines:
        found = reported(SyncMultiGPUTrainerReplicated(2), Noisy(BATCH))
    assert found == pytest.approx(smoothed(2, ALL, 0.9), rel=1e-9)
    assert "gradient_noise/scale" not in found
    assert any("Noisy cannot tell the noise scale" in line for line in lines)


def test_the_estimates_are_unbiased_by_their_expectations() -> None:
    square, trace, batch, towers = 3.0, 40.0, 8, 4
    of_towers, of_mean = square + trace / batch, square + trace / (batch * towers)
    assert noise_estimates(of_towers, of_mean, batch, towers) == pytest.approx((square, trace))


def test_squared_norms_add_the_rows_of_one_index_first(session8: Any) -> None:
    rows = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tf.constant([2, 0, 2]), [3, 2])
    norm = squared_norm([rows, tf.constant([2.0]), tf.constant([100.0], tf.float16)])
    assert norm.dtype == tf.float64
    assert session8.run(norm) == 6**2 + 8**2 + 3**2 + 4**2 + 4 + 100**2


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (SimpleTrainer, "SimpleTrainer"),
        (lambda: SyncMultiGPUTrainerReplicated(1), "SyncMultiGPUTrainerReplicated"),
        (lambda: AsyncMultiGPUTrainer(2), "AsyncMultiGPUTrainer"),
        (lambda: SyncMultiGPUTrainerReplicated(2, accumulate=2), "SyncMultiGPUTrainerReplicated"),
        (lambda: SyncMultiGPUTrainerParameterServer(2, accumulate=2), "SyncMultiGPUTrainerParameterServer"),
        (lambda: SyncMultiGPUTrainerReplicated(2, sync_every_steps=2), "SyncMultiGPUTrainerReplicated"),
        (lambda: SyncMultiGPUTrainerReplicated(2, mode="adasum"), "SyncMultiGPUTrainerReplicated"),
        (lambda: SyncMultiGPUTrainerReplicated(2, precision="float16"), "SyncMultiGPUTrainerReplicated"),
    ],
)
def test_other_trainers_are_refused_in_words(graph: Any, log_dir: Any, make: Any, name: str) -> None:
    with pytest.raises(CallbackError, match=f"GradientNoiseScale got {name}: expected .* at least two towers; use "):
        reported(make(), GradientNoiseScale(EXAMPLES), Gaussian(), gaussian_data())


def test_all_towers_of_all_workers_count(tmp_path: Any) -> None:
    chief, other = values_of(run_workers("tests.helpers.noisy_gradients.of_workers", 2, tmp_path))
    # Its own towers and the mean of all are what worker 0 knows.
    for name, towers in (("mean", 4), ("sum", 4), ("one tower each", 2)):
        assert chief[name] == pytest.approx(smoothed(towers, ALL, 0.9, of_own=towers // 2), rel=1e-9)
        assert other[name] == {}
    for name in ("codec", "adasum", "sharded"):
        assert "GradientNoiseScale got MultiWorkerTrainerReplicated: expected" in chief[name]
