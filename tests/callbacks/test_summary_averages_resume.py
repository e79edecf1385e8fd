"""Moving averages are read after the step that updates them, and go on where the checkpoint left them."""

import json
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.toy_training import Line
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.summary import MergeAllSummaries, MovingAverageSummary, SimpleMovingAverage
from tpack.dataflow.sources import DataFromList
from tpack.tfutils.summary import add_moving_summary, add_param_summary
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer

DECAY = 0.95


class Averaged(Line):
    """The data say which step it is, in hundredths."""

    def build_graph(self, x: Any, y: Any) -> Any:
        step = tf.reduce_mean(x)
        add_moving_summary(tf.square(step, name="squares"), tf.identity(y[0], name="value"))
        add_moving_summary(tf.identity(step, name="squares"))
        return super().build_graph(x, y)


def train(max_epoch: int, steps_per_epoch: int = 3) -> None:
    points = [[np.full(2, step / 100, np.float32), np.ones(2, np.float32)] for step in range(20)]
    config = AutoResumeTrainConfig(
        model=Averaged(),
        dataflow=DataFromList(points, shuffle=False),
        callbacks=[SimpleMovingAverage(["squares"], 4), ModelSaver()],
        steps_per_epoch=steps_per_epoch,
        max_epoch=max_epoch,
    )
    launch_train_with_config(config, SimpleTrainer())


def averages_of_squares(num_steps: int) -> float:
    return float(np.average((np.arange(num_steps) / 100) ** 2, weights=DECAY ** np.arange(num_steps)[::-1]))


def statistics(log_dir: Any) -> list[dict[str, float]]:
    entries = json.loads((log_dir / "stats.json").read_text())
    # How long steps waited for data differs.
    return [{name: value for name, value in entry.items() if "QueueInput" not in name} for entry in entries]


def test_the_last_step_of_an_epoch_counts(log_dir: Any) -> None:
    train(3)
    np.testing.assert_allclose(
        [entry["squares"] for entry in statistics(log_dir)], [averages_of_squares(3 * k) for k in (1, 2, 3)], rtol=1e-6
    )


def test_one_step_an_epoch_has_an_average(log_dir: Any) -> None:
    train(3, steps_per_epoch=1)
    np.testing.assert_allclose(
        [entry["squares"] for entry in statistics(log_dir)], [averages_of_squares(k) for k in (1, 2, 3)], rtol=1e-6
    )


def test_averages_go_on_where_the_checkpoint_left_them(log_dir: Any) -> None:
    train(5)
    whole = statistics(log_dir)
    for path in log_dir.glob("*"):
        path.unlink()
    for max_epoch in (2, 4, 5):
        train(max_epoch)
    assert statistics(log_dir) == whole
    assert {"squares", "squares_1", "value", "squares/SMA"} <= set(whole[0])


def test_averages_that_are_new_begin_and_old_ones_are_left(graph: Any) -> None:
    add_moving_summary(tf.constant(1.0, name="a"), tf.constant(2.0, name="b"))
    callback = MovingAverageSummary()
    trainer = FakeTrainer()
    trainer.setup([callback])
    with trainer.sess:
        callback.load_saved_state({"b": [10.0, 5.0, 5.0], "gone": [1.0, 1.0, 1.0]})
        assert callback.state_to_save() == {"a": [0.0, 0.0, 0.0], "b": [10.0, 5.0, 5.0]}


def test_parameters_are_shown_as_they_are_after_the_step(graph: Any) -> None:
    weight = tf.get_variable("w", initializer=0.0, use_resource=True)
    add_param_summary(("w", ["scalar"]))
    trainer = FakeTrainer(tf.assign_add(weight, 1.0).op)
    trainer.train([MergeAllSummaries(period=2)], steps_per_epoch=3, epochs=(1, 2))
    assert [(step, value) for name, value, _, step in trainer.recorder.scalars if name == "param-summary/w"] == [
        (2, 2.0),
        (3, 3.0),
        (5, 5.0),
        (6, 6.0),
    ]


def test_averages_are_exported_by_name(graph: Any, tmp_path: Any) -> None:
    add_moving_summary(tf.constant(1.0, name="a"))
    exported = tf.train.export_meta_graph(str(tmp_path / "graph.meta"))
    assert exported.collection_def["MOVING_AVERAGES"].node_list.value == ["MovingSummary/state"]
