import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_inference import SIGNATURE, expected_statistics, flow, make_trainer, model, uneven_batches
from tpack.callbacks.inference.inferencers import BinaryClassificationStats, ClassificationError, ScalarStats
from tpack.callbacks.inference.runners import DataParallelInferenceRunner, InferenceRunner
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow.arrays import DataFromArrays
from tpack.errors import ConfigError, TowerError
from tpack.input_source.queue_input import QueueInput
from tpack.tower.tower_func import TowerFunc


def make_inferencers():
    return [ClassificationError(), ScalarStats(["cost", "score"]), BinaryClassificationStats("prediction", "label")]


def assert_statistics(trainer, batches, weights):
    for epoch, weight in enumerate(weights):
        for name, value in expected_statistics(batches, weight).items():
            assert trainer.recorder.values(name)[epoch] == pytest.approx(value, rel=1e-5), name


@pytest.mark.parametrize("make_input", [flow, lambda batches: QueueInput(flow(batches))])
def test_statistics_are_those_of_numpy_with_the_current_weights(graph, rng, make_input):
    batches = uneven_batches(rng, 5)
    trainer = make_trainer().train(
        [InferenceRunner(make_input(batches), make_inferencers())], steps_per_epoch=2, epochs=(1, 3)
    )
    assert_statistics(trainer, batches, weights=[3.0, 5.0, 7.0])


@pytest.mark.parametrize(
    "given",
    [
        lambda x, label: (x, label),
        lambda x, label: list(zip(x, label, strict=True)),
        lambda x, label: DataFromArrays((x, label), shuffle=False),
        lambda x, label: tf.data.Dataset.from_tensor_slices((x, label)),
    ],
    ids=["arrays", "list", "flow", "tf.data"],
)
@pytest.mark.parametrize("several", [False, True])
def test_examples_are_put_into_batches_and_none_is_left_out(graph, rng, given, several):
    batches = uneven_batches(rng, 4)
    x, label = (np.concatenate(part) for part in zip(*batches, strict=True))
    wanted = [[x[k : k + 4], label[k : k + 4]] for k in range(0, len(x), 4)]
    assert len(wanted[-1][0]) < 4
    with tf.init_scope():
        data = given(x, label)
    make = DataParallelInferenceRunner if several else InferenceRunner
    runner = make(data, make_inferencers(), *([2] if several else []), batch_size=4)
    trainer = make_trainer().train([runner], steps_per_epoch=2, epochs=(1, 1))
    assert_statistics(trainer, wanted, weights=[3.0])


@pytest.mark.parametrize(("names", "rows", "told"), [("cost", 11, True), (["score"], 11, False), ("cost", 8, False)])
def test_that_a_smaller_last_batch_counts_as_much_is_told(graph, rng, names, rows, told, capsys):
    data = (rng.normal(size=rows).astype(np.float32), rng.integers(0, 2, rows).astype(np.int32))
    make_trainer().train([InferenceRunner(data, ScalarStats(names), batch_size=4)], steps_per_epoch=1, epochs=(1, 1))
    line = "averages cost over batches, since each has one number, and the last batch has 3 example(s), the others 4"
    assert (line in capsys.readouterr().err) == told


def test_batches_are_not_put_into_batches(graph, rng):
    x, label = uneven_batches(rng, 1)[0]
    with pytest.raises(ConfigError, match="the data are arrays.*batch_size"):
        InferenceRunner((x, label), make_inferencers())
    with pytest.raises(ConfigError, match="got batch_size=4 and a QueueInput: expected one"):
        InferenceRunner(QueueInput(flow([[x, label]])), make_inferencers(), batch_size=4)


def test_two_runners_work_side_by_side(graph, rng):
    first, second = uneven_batches(rng, 3), uneven_batches(rng, 2)
    runners = [
        InferenceRunner(flow(first), ScalarStats("cost", prefix="a"), tower_name="A"),
        InferenceRunner(flow(second), ScalarStats("cost", prefix="b"), tower_name="B"),
    ]
    trainer = make_trainer().train(runners, steps_per_epoch=1, epochs=(1, 1))
    for name, batches in (("a_cost", first), ("b_cost", second)):
        expected = expected_statistics(batches, 2.0)["validation_cost"]
        assert trainer.recorder.values(name) == [pytest.approx(expected, rel=1e-5)]


def test_runner_can_be_triggered_before_training(graph, rng):
    batches = uneven_batches(rng, 3)
    runner = PeriodicTrigger(InferenceRunner(flow(batches), make_inferencers()), every_k_epochs=2, before_train=True)
    trainer = make_trainer().train([runner], steps_per_epoch=1, epochs=(1, 2))
    assert_statistics(trainer, batches, weights=[1.0, 3.0])


def test_device_and_model_can_be_chosen(graph, rng):
    devices = []

    def on_device(x, label):
        score = tf.identity(x, name="score")
        devices.append(score.device)

    other = TowerFunc(on_device, SIGNATURE)
    batches = uneven_batches(rng, 2)
    runner = InferenceRunner(flow(batches), ScalarStats("score"), tower_func=other, device=3)
    trainer = make_trainer().train([runner], epochs=(1, 1))
    expected = expected_statistics(batches, 1.0)["validation_score"]
    assert trainer.recorder.values("validation_score") == [pytest.approx(expected)]
    assert devices == ["/device:CPU:3"] or "GPU:3" in devices[0]


def test_inference_adds_nothing_to_the_training_collections(graph, rng):
    def with_extras(x, label):
        cost = model(x, label)
        tf.summary.scalar("cost_summary", cost)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, cost.op)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, cost)

    trainer = make_trainer()
    keys = (tf.GraphKeys.SUMMARIES, tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.REGULARIZATION_LOSSES)
    trainer.train(
        [
            InferenceRunner(
                flow(uneven_batches(rng, 2)), ScalarStats("cost"), tower_func=TowerFunc(with_extras, SIGNATURE)
            )
        ]
    )
    assert [graph.get_collection(key) for key in keys] == [[], [], []]


def test_runners_need_no_names(graph, rng):
    batches = uneven_batches(rng, 3)
    runners = [
        InferenceRunner(flow(batches), ScalarStats("score", prefix="first")),
        InferenceRunner(flow(batches), ScalarStats("score", prefix="second")),
        DataParallelInferenceRunner(flow(batches), ScalarStats("score", prefix="third"), 2),
        DataParallelInferenceRunner(flow(batches), ScalarStats("score", prefix="fourth"), 2),
        InferenceRunner(flow(batches), ScalarStats("score", prefix="fifth"), tower_name="mine"),
    ]
    trainer = make_trainer().train(runners, epochs=(1, 1))
    values = {trainer.recorder.values(f"{which}_score")[0] for which in ("first", "second", "third", "fourth", "fifth")}
    assert len(values) == 1
    assert [tower.name for tower in trainer.tower_func.towers] == [
        "",
        "InferenceTower",
        "InferenceTower_1",
        "InferenceTower0",
        "InferenceTower1",
        "InferenceTower_10",
        "InferenceTower_11",
        "mine",
    ]


def test_a_name_that_is_given_twice_is_an_error(graph, rng):
    runners = [InferenceRunner(flow(uneven_batches(rng, 2)), ClassificationError(), "mine") for _ in range(2)]
    with pytest.raises(TowerError, match="there is a tower 'mine' already: give this one another name"):
        make_trainer().setup(runners)
