import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.table_workers import FIRST, IDS, OPTIMIZERS, ROWS, STEPS, TAGS, WIDTH, Tables, train
from tests.helpers.worker_job import run_workers, values_of
from tpack.callbacks.saver import ModelSaver
from tpack.errors import ConfigError, GraphBuildError, TowerMismatchError
from tpack.graph_builder.local_steps import LocalSteps
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.local_steps import MultiWorkerLocalStepsBuilder
from tpack.multi_worker.replicated_builder import MultiWorkerReplicatedBuilder
from tpack.multi_worker.sharded_builder import MultiWorkerShardedBuilder
from tpack.multi_worker.tables.embedding import check_updates_by_row, sharded_embedding
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.optimizers import LAMB, AdamW
from tpack.tfutils.gradproc import GlobalNormClip, ScaleGradient
from tpack.tfutils.optimizer import AccumGradOptimizer, apply_grad_processors
from tpack.tower.collections import TRAINED_TENSORS_KEY
from tpack.tower.context import PredictTowerContext, current_tower_context
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated

MODULE = "tests.helpers.table_workers"
GROUP = WorkerGroup(["/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:2"], 1, "run")


def in_one_process(name, towers, average):
    """Return the values of all saved variables after a training with ordinary tables."""
    with tf.Graph().as_default():
        return train(name, SyncMultiGPUTrainerReplicated(towers, average=average), towers).values


def grads_of(*calls):
    """Return a function that builds a tower with look-ups, given by keyword, and returns its gradients."""

    def grads():
        cost = tf.reduce_sum(tf.get_variable("w", [2]))
        for call in calls:
            cost += tf.reduce_sum(sharded_embedding(**{"ids": tf.constant([1, 2, 2]), "rows": 7, "width": 2, **call}))
        tower = current_tower_context()
        trained = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
        trained += tower.get_collection_in_tower(TRAINED_TENSORS_KEY)
        return list(zip(tf.gradients(cost, trained), trained, strict=True))

    return grads


def adam():
    return tf.train.AdamOptimizer(0.1)


@pytest.mark.parametrize(("workers", "towers", "average"), [(2, 2, True), (3, 1, False)])
def test_workers_with_parts_of_the_rows_have_the_bits_of_one_process_with_tables(tmp_path, workers, towers, average):
    found = values_of(
        run_workers(f"{MODULE}.equal", workers, tmp_path, arguments={"towers": towers, "average": average})
    )
    for name in OPTIMIZERS:
        whole = in_one_process(name, workers * towers, average)
        assert whole["emb"].std() > 0
        for rank, values in enumerate(found):
            saved, local = values[name]
            assert saved.keys() == whole.keys()
            for key in whole:
                np.testing.assert_array_equal(saved[key], whole[key], err_msg=f"{name} in worker {rank}: {key}")
            of_table = {key: shape for key, shape in local.items() if key.split("/")[0] == "emb"}
            assert len(of_table) == {"sgd": 1, "momentum": 2, "adam": 3}[name]
            assert set(map(tuple, of_table.values())) == {(len(range(rank, ROWS, workers)), WIDTH)}


def test_checkpoints_go_from_any_number_of_workers_to_any_other(tmp_path):
    def run(directory, max_epoch, workers):
        arguments = {"directory": str(tmp_path / directory), "max_epoch": max_epoch, "towers": 6 // workers}
        run_in = tmp_path / f"{directory} {max_epoch}"
        values_of(run_workers(f"{MODULE}.save", workers, run_in, arguments={**arguments, "asynchronous": workers == 3}))

    def run_alone(directory, max_epoch):
        with tf.Graph().as_default():
            trainer = SyncMultiGPUTrainerReplicated(6, average=False)
            settings = {"steps_per_epoch": 2, "max_epoch": max_epoch, "log_dir": str(tmp_path / directory)}
            train("adam", trainer, 6, ModelSaver(), config=AutoResumeTrainConfig, **settings)

    run_alone("whole", 3)
    run_alone("up", 1)
    run("up", 2, 2)
    run("up", 3, 3)
    run("down", 1, 3)
    run("down", 2, 2)
    run_alone("down", 3)
    for step in (2, 4, 6):
        whole, *others = (
            tf.train.load_checkpoint(str(tmp_path / f"{name}/model-{step}")) for name in ("whole", "up", "down")
        )
        shapes = whole.get_variable_to_shape_map()
        assert {"emb", "emb/Adam", "emb/Adam_1", "more/tags", "w"} <= shapes.keys()
        for saved in others:
            assert saved.get_variable_to_shape_map() == shapes
            for key in shapes:
                np.testing.assert_array_equal(saved.get_tensor(key), whole.get_tensor(key), err_msg=f"{step}: {key}")


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """What two workers return that train in several ways."""
    return values_of(run_workers(f"{MODULE}.features", 2, tmp_path_factory.mktemp("features")))


def test_distinct_ids_and_their_rows_travel_and_nothing_else(features):
    for rank, found in enumerate(features):
        assert len(found["sent"]) == STEPS
        for step, sent in enumerate(found["sent"]):
            asked, num_ids, served = 0, 0, 0
            for worker in range(2):
                ids = IDS[step, 2 * worker : 2 * worker + 2]
                for values, width in ((ids, WIDTH), (ids[:, :2], WIDTH), (ids % TAGS, 1)):
                    num_of_other = int(np.sum(np.unique(values) % 2 != worker))
                    if worker == rank:
                        num_ids += num_of_other
                        asked += num_of_other * width
                    else:
                        served += num_of_other * width
            assert sent == {"ids": 4 * num_ids, "rows": 8 * served, "gradients": 8 * asked, "updated": 1}


def test_a_predictor_reads_rows_where_they_are_and_afterwards_from_the_weights(features):
    chief = features[0]
    assert len(chief["predicted"]) == 3
    np.testing.assert_array_equal(chief["weights"]["emb"], chief["plain"]["emb"])
    last = chief["plain"]["emb"][3:7].sum(axis=0)
    np.testing.assert_array_equal(chief["predicted"][1:], [last, last])
    assert (chief["predicted"][0] != last).any()


@pytest.mark.parametrize("name", ["several steps", "compiled"])
def test_steps_of_other_kinds_give_the_same_bits(features, name):
    for found in features:
        for key, value in found["plain"].items():
            np.testing.assert_array_equal(found[name][key], value, err_msg=key)


def test_dense_gradients_may_be_encoded_and_computation_be_in_16_bits(features):
    expected = FIRST - 0.25 * np.bincount(IDS[:, :4].ravel(), minlength=ROWS)[:, None] / 4
    for found in features:
        for name in ("encoded", "bfloat16"):
            np.testing.assert_array_equal(found[name]["emb"], expected.astype("float32"), err_msg=name)
        assert found["dtype"] == "bfloat16"


def test_a_scaled_cost_is_refused_on_all(features):
    for found in features:
        assert "sharded_embedding got name='emb' and the optimizer LossScaleOptimizer: expected" in found["float16"]


def test_ids_that_are_no_rows_end_the_training_of_all(features):
    other, origin = features
    assert "expected 0 to 6" in origin["wrong ids"]
    assert other["wrong ids"].startswith("PeerLostError: worker 1 failed: ")


def test_in_one_process_a_table_is_an_ordinary_variable(graph):
    saved = train("sgd", SimpleTrainer(), 1).values
    assert {name: value.shape for name, value in saved.items() if name != "global_step"} == {
        "w": (WIDTH,), "emb": (ROWS, WIDTH), "more/tags": (TAGS, 1)
    }  # fmt: skip


def test_prediction_in_a_graph_of_its_own_finds_the_variable(graph):
    with PredictTowerContext(""):
        Tables("sgd").build_graph(tf.zeros([4], tf.int64), tf.zeros([1, WIDTH], tf.float64))
    assert [v.op.name for v in tf.global_variables()] == ["w", "emb", "more/tags"]


def test_rows_are_drawn_where_no_initializer_is_given(session8):
    rows = sharded_embedding("emb", [[0, 1], [2, 2]], 3, 4)
    session8.run(tf.global_variables_initializer())
    found = session8.run(rows)
    assert found.shape == (2, 2, 4)
    assert 0 < np.abs(found).max() <= 0.05
    np.testing.assert_array_equal(found[1, 0], found[1, 1])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rows": 0}, "got rows=0: expected an integer of at least 1"),
        ({"width": -1}, "got width=-1: expected an integer of at least 1"),
        ({"name": ""}, "got name=''"),
        ({"dtype": tf.int32}, "got dtype='int32': expected float32 or float64"),
        ({"dtype": "wide"}, "got dtype='wide': expected float32 or float64"),
        ({"ids": np.ones(3)}, "got ids=.*: expected a tensor of int32 or int64; use tf.cast"),
        ({"ids": None}, "got ids=None: expected a tensor of int32 or int64"),
        ({"initializer": np.ones([3, 3])}, r"got initializer=.*: expected an array of shape \(7, 2\)"),
        ({"initializer": 0.5}, r"got initializer=0.5: expected an array of shape \(7, 2\)"),
    ],
)
def test_wrong_arguments_are_refused_by_name(graph, changed, words):
    arguments = {"name": "emb", "ids": [1], "rows": 7, "width": 2, **changed}
    with pytest.raises(ConfigError, match=f"^sharded_embedding {words}"):
        sharded_embedding(**arguments)


def test_a_look_up_takes_three_messages_to_each_other_worker(graph):
    builder = MultiWorkerReplicatedBuilder(2, GROUP)
    result = builder.build(grads_of({"name": "emb"}), adam)
    names = [
        op.inputs[0].op.get_attr("shared_name").decode() for op in graph.get_operations() if op.type == "QueueEnqueueV2"
    ]
    of_table = sorted(name for name in names if "tables/" in name)
    assert of_table == sorted(
        f"run/tables/{what}/1_to_{o}"
        for what in ("emb/0/ids", "emb/0/rows", "emb/0/gradients", "updated")
        for o in (0, 2)
    )
    assert [v.op.name for v in tf.global_variables() if v.op.name.startswith("emb")] == [
        "emb",
        "emb/Adam",
        "emb/Adam_1",
    ]
    assert [v.op.name for row in result.variables for v in row] == ["w", "tower1/w"]
    # Beside the dense one, before the exchange.
    assert len(builder.own_gradients) == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MultiWorkerShardedBuilder(1, GROUP), "shard_optimizer=True"),
        (lambda: MultiWorkerLocalStepsBuilder(1, GROUP, LocalSteps(4)), "sync_every_steps"),
        (lambda: MultiWorkerReplicatedBuilder(1, GROUP, accumulate=2), "accumulate=2"),
        (lambda: MultiWorkerReplicatedBuilder(1, GROUP, exchange=Exchange(op="adasum")), "exchange='adasum'"),
    ],
)
def test_what_cannot_be_together_is_refused_by_name(graph, make, words):
    with pytest.raises(
        ConfigError, match=f"^sharded_embedding got name='emb' with {words}: expected a trainer without"
    ):
        make().build(grads_of({"name": "emb"}), adam)


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([{"name": "emb"}, {"name": "emb", "rows": 8}], "got 'emb' of 8 x 2 float32: expected 'emb' of 7 x 2 float32"),
        ([{"name": "emb", "rows": 2}], "got rows=2: expected at least one for each of 3 workers"),
        ([{"name": "w"}], "got name='w': expected one that the graph does not have"),
    ],
)
def test_wrong_tables_of_several_workers_are_refused(graph, calls, words):
    with pytest.raises(ConfigError, match=f"^sharded_embedding {words}"):
        MultiWorkerReplicatedBuilder(1, GROUP).build(grads_of(*calls), adam)


def test_towers_look_up_in_the_same_tables(graph):
    def grads():
        return grads_of({"name": f"emb{current_tower_context().index}"})()

    with pytest.raises(
        TowerMismatchError, match="^sharded_embedding got 'emb1' of .* in one tower: expected 'emb0' of 7"
    ):
        MultiWorkerReplicatedBuilder(2, GROUP).build(grads, adam)


def test_all_towers_train_a_table_or_none(graph):
    def grads():
        pairs = grads_of({"name": "emb"})()
        return pairs[:1] if current_tower_context().index else pairs

    with pytest.raises(
        TowerMismatchError, match="^sharded_embedding got a cost that depends on 'emb' in some towers: expected it"
    ):
        MultiWorkerReplicatedBuilder(2, GROUP).build(grads, adam)


def test_a_predictor_finds_tables_of_training_alone(graph):
    MultiWorkerReplicatedBuilder(1, GROUP).build(grads_of({"name": "emb"}), adam)
    with PredictTowerContext("predict", reuse=True):
        assert sharded_embedding("emb", [[1, 2]], 7, 2).shape.as_list() == [1, 2, 2]
        with pytest.raises(TowerMismatchError, match="got name='other' for prediction: expected a table that"):
            sharded_embedding("other", [1], 7, 2)


def test_slots_have_the_rows_of_their_table(graph, monkeypatch):
    class Odd(tf.train.GradientDescentOptimizer):
        def _create_slots(self, var_list):
            for variable in var_list:
                tf.get_variable(f"{variable.op.name}/count", [], trainable=False)

    monkeypatch.setattr("tpack.multi_worker.tables.embedding._BY_ROW", (Odd,))
    with pytest.raises(GraphBuildError, match=r"got a slot emb/count of shape \(\) for 'emb' of 7 x 2 float32"):
        MultiWorkerReplicatedBuilder(1, GROUP).build(grads_of({"name": "emb"}), lambda: Odd(0.1))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: apply_grad_processors(adam(), [GlobalNormClip(1.0)]), "and the optimizer's GlobalNormClip: expected"),
        (lambda: LAMB(0.1), "and the optimizer LAMB: expected one that updates each number by itself, Gradient"),
        (lambda: AccumGradOptimizer(adam(), 2), "and the optimizer AccumGradOptimizer: expected"),
        (lambda: type("Own", (tf.train.AdamOptimizer,), {})(0.1), "and the optimizer Own: expected"),
    ],
)
def test_optimizers_that_look_at_more_than_a_row_are_refused(graph, make, words):
    with pytest.raises(GraphBuildError, match=f"^sharded_embedding got name='emb' {words}"):
        check_updates_by_row(make(), "emb")


def test_optimizers_by_row_are_taken(graph):
    for optimizer in (adam(), AdamW(0.1, weight_decay=0.1), apply_grad_processors(adam(), [ScaleGradient(("w", 2.0))])):
        assert check_updates_by_row(optimizer, "emb") is None
