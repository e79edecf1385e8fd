import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.builders import build, places_of, run_steps
from tests.helpers.copied_graphs import described
from tests.helpers.log_lines import captured_log
from tests.helpers.measuring_workers import answering
from tests.helpers.sessions import cpu_session
from tpack.errors import ConfigError, GraphBuildError, WrongTypeError
from tpack.graph_builder.loss_scale import DynamicLossScale, LossScaleOptimizer
from tpack.graph_builder.precision import LossScaling
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.autotune.autotune import AutoReducer, ChoiceCache
from tpack.reduction.autotune.measure import MeasuringOptions
from tpack.tfutils.gradproc import GlobalNormClip, MapGradient, PrintGradient, ScaleGradient, SummaryGradient
from tpack.tfutils.optimizer import AccumGradOptimizer, VariableAssignmentOptimizer, apply_grad_processors
from tpack.tower.context import current_tower_context


def test_replicas_and_their_slots_lie_on_their_towers(graph):
    places = places_of(SyncMultiGPUReplicatedBuilder(4))
    for tower in range(4):
        prefix = f"tower{tower}/" if tower else ""
        for weight in "abcd":
            assert places[f"{prefix}{weight}"] == f"/device:CPU:{tower}"
            assert places[f"{prefix}{weight}/Momentum"] == f"/device:CPU:{tower}"
        updates = [op for op in places if op.startswith(f"tower{tower}/apply_gradients/update_")]
        assert len(updates) >= 4
        assert {places[op] for op in updates} == {f"/device:CPU:{tower}"}


def test_sync_copies_variables_and_slots_from_the_main_tower_before_each_epoch(graph):
    result = build(SyncMultiGPUReplicatedBuilder(2))
    assert result.sync_op.every_steps is None
    with run_steps(result, 2) as session:
        for variable in tf.global_variables():
            variable.load(np.full(variable.shape, 5.0), session)
        session.run(result.sync_op.op)
        for copy in tf.local_variables():
            np.testing.assert_array_equal(session.run(copy), np.full(copy.shape, 5.0))
    assert len(tf.local_variables()) == 8


def test_adam_advances_its_beta_powers_once_a_step_in_each_tower(graph):
    result = build(SyncMultiGPUReplicatedBuilder(4), tf.train.AdamOptimizer(0.1, beta1=0.5))
    with run_steps(result, 3) as session:
        powers = [v for v in tf.global_variables() + tf.local_variables() if "beta1_power" in v.op.name]
        np.testing.assert_allclose(session.run(powers), [0.5**4] * 4)


def test_replicated_takes_a_reducer_and_no_text():
    reducer = RingReducer()
    assert SyncMultiGPUReplicatedBuilder(2, reducer=reducer).reducer is reducer
    assert isinstance(SyncMultiGPUReplicatedBuilder(2).reducer, RoundRobinReducer)
    for wrong in ("xring", 3):
        with pytest.raises(WrongTypeError, match="^SyncMultiGPUReplicatedBuilder got reducer="):
            SyncMultiGPUReplicatedBuilder(2, True, wrong)


def test_copies_need_no_initialiser(graph):
    result = build(SyncMultiGPUReplicatedBuilder(2))
    assert {variable.op.name for variable in result.copies} == {variable.op.name for variable in tf.local_variables()}
    with cpu_session(num_cpus=2) as session:
        session.run(tf.global_variables_initializer())
        session.run(result.init_op)
        session.run(result.train_op)
        main, copy = session.run([tf.trainable_variables(), [v for v in result.copies if "Momentum" not in v.op.name]])
    np.testing.assert_array_equal(main, copy)


def test_gradient_processors_treat_all_replicas_alike(graph):
    optimizer = apply_grad_processors(tf.train.GradientDescentOptimizer(0.1), [ScaleGradient([("a", 0), ("b", 3.0)])])
    result = build(SyncMultiGPUReplicatedBuilder(3), optimizer)
    with run_steps(result, 2) as session:
        main = session.run(tf.global_variables())
        copies = session.run(tf.local_variables())
    np.testing.assert_allclose([weight[0] for weight in main], [1, 0.7**2, 0.9**2, 0.9**2], rtol=1e-6)
    np.testing.assert_array_equal(copies, main * 2)


def test_gradients_are_summarised_once(graph):
    optimizer = apply_grad_processors(tf.train.GradientDescentOptimizer(0.1), [SummaryGradient("a")])
    build(SyncMultiGPUReplicatedBuilder(3), optimizer)
    assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 2


def test_gradients_are_reduced_by_what_was_measured(graph, tmp_path):
    options = MeasuringOptions(("one_device", "xring"), worker=answering({"one_device": 0.2, "xring": 0.1}))
    auto = AutoReducer(options=options, cache=ChoiceCache(str(tmp_path)))
    with captured_log() as lines:
        result = build(SyncMultiGPUReplicatedBuilder(2, reducer=auto))
    assert any("reduced by xring: xring is the fastest of 2" in line for line in lines)
    assert any(op.name.startswith("reduce_gradients/auto/xring") for op in graph.get_operations())
    with run_steps(result, 1) as session:
        main, copy = session.run([tf.trainable_variables(), [v for v in result.copies if "Momentum" not in v.op.name]])
    np.testing.assert_array_equal(main, copy)


@pytest.mark.parametrize("average", ["no", None, 0])
def test_what_is_neither_true_nor_false_does_not_average(average):
    with pytest.raises(ConfigError, match="SyncMultiGPUReplicatedBuilder got average=.*: expected True or False"):
        SyncMultiGPUReplicatedBuilder(2, average)


def _everything_that_wraps():
    def scale(gradient):
        return gradient if isinstance(gradient, tf.IndexedSlices) else gradient * 2

    processors = [GlobalNormClip(5), SummaryGradient(), PrintGradient(), ScaleGradient(("e", 2.0)), MapGradient(scale)]
    inner = VariableAssignmentOptimizer(tf.train.RMSPropOptimizer(0.1, 0.9), lambda v: tf.clip_by_value(v, -1, 1))
    return apply_grad_processors(AccumGradOptimizer(inner, 2), processors)


COPIED_UPDATES = {
    "momentum": lambda: tf.train.MomentumOptimizer(tf.get_variable("learning_rate", initializer=0.1), 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "wrappers": _everything_that_wraps,
    "loss scale": lambda: LossScaleOptimizer(tf.train.AdagradOptimizer(0.1), DynamicLossScale(LossScaling())),
}


@pytest.mark.parametrize("kind", COPIED_UPDATES)
def test_updates_that_are_copied_are_those_that_are_built(kind):
    def grad_fn():
        rows = tf.nn.embedding_lookup(tf.get_variable("e", [5, 3]), [1, 3])
        cost = tf.reduce_mean((tf.ones([2, 4]) @ tf.get_variable("w", [4, 3]) + rows) ** 2)
        variables = current_tower_context().get_collection_in_tower("trainable_variables")
        return list(zip(tf.gradients(cost, variables), variables, strict=True))

    graphs = []
    for how in ("build", "copy"):
        with tf.Graph().as_default() as graph:
            optimizer = COPIED_UPDATES[kind]()
            SyncMultiGPUReplicatedBuilder(4, tower_building=how).build(grad_fn, lambda o=optimizer: o)
            if kind == "loss scale":
                optimizer._loss_scale.update()
            graphs.append(described(graph, copies_are_set=True))
    assert graphs[0]["nodes"] == graphs[1]["nodes"]
    assert graphs[0] == graphs[1]


def test_an_optimizer_that_asks_for_its_tower_updates_each(graph):
    class Slower(tf.train.GradientDescentOptimizer):
        def apply_gradients(self, pairs, **kwargs):
            rate = 1.0 / (1 + current_tower_context().index)
            return super().apply_gradients([(grad * rate, variable) for grad, variable in pairs], **kwargs)

    with captured_log() as lines:
        result = build(SyncMultiGPUReplicatedBuilder(3), Slower(0.1))
    assert ["what updates a tower cannot be copied" in line for line in lines if "differs" in line] == [True]
    assert len(result.towers) == 3
    with tf.Graph().as_default(), pytest.raises(GraphBuildError, match="differs from tower to tower: index"):
        build(SyncMultiGPUReplicatedBuilder(3, tower_building="copy"), Slower(0.1))
