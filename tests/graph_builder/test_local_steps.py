"""Towers that train each by itself become their mean; an outer optimizer goes the way of the mean."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.builders import build, run_steps
from tests.helpers.drawn_weights import NUM_STEPS, RATE, TARGETS, Drawn, drawn, train
from tests.helpers.sessions import cpu_session
from tpack.callbacks.saver import ModelSaver
from tpack.errors import ConfigError, GraphBuildError, WrongTypeError
from tpack.graph_builder.local_steps import LocalSteps, LocalStepsBuilder
from tpack.graph_builder.towers import SimpleBuilder
from tpack.schedules import Step
from tpack.tfutils.dependency import dependency_of_targets
from tpack.tfutils.sessinit import SaverRestore
from tpack.tower.context import current_tower_context
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated

WHOLE = {"steps_per_epoch": NUM_STEPS, "max_epoch": 1}


def momentum(rate: float = RATE) -> Any:
    return tf.train.MomentumOptimizer(rate, 0.5)


def trained(towers: int, model: Any = None, callbacks: Any = (), settings: Any = WHOLE, **options: Any) -> Any:
    return train(lambda: SyncMultiGPUTrainerReplicated(towers, **options), model, callbacks, **settings)


def local(num_towers: int, synced_after: list[int], outer: Any = lambda anchor, mean: mean) -> list[list[float]]:
    """Return the weight of each tower after each step, as numpy has it."""
    weights, anchor, seen = np.zeros(num_towers), 0.0, []
    for step in range(1, NUM_STEPS + 1):
        weights = weights - RATE * (weights - TARGETS[step - 1, :num_towers])
        if step in synced_after:
            anchor = outer(anchor, weights.mean())
            weights = np.full(num_towers, anchor)
        seen.append(weights.tolist())
    return seen


class Alike(Drawn):
    """Draws the weights of all towers to the same targets, which are not exact in binary."""

    def build_graph(self, target: Any, factor: Any, step: Any) -> Any:
        same = tf.constant(TARGETS[:, 0] / 3, target.dtype)[step]
        return super().build_graph(same, factor, step)


@pytest.mark.parametrize(
    ("every", "settings", "synced_after"),
    [
        (3, WHOLE, [3, 6, 9, 12]),
        # Counted anew in each epoch, after whose last step towers meet.
        (4, {}, [4, 6, 10, 12]),
        (100, {}, [6, 12]),
        (Step(2, {1: 3}), {}, [2, 4, 6, 9, 12]),
    ],
)
def test_towers_train_by_themselves_and_meet_in_their_mean(every: Any, settings: Any, synced_after: list[int]) -> None:
    found = trained(4, settings=settings, sync_every_steps=every)
    assert found.seen == local(4, synced_after)
    assert sum(len(set(weights)) == 1 for weights in found.seen) == len(synced_after)


def test_one_step_with_gradient_descent_is_synchronous_training_bit_for_bit() -> None:
    ours, other = trained(4, sync_every_steps=1), trained(4)
    assert ours.seen == other.seen == [[each] * 4 for each in drawn(4, list(range(1, NUM_STEPS + 1)))]
    np.testing.assert_array_equal(ours.last["table"], other.last["table"])


@pytest.mark.parametrize("inner_state", ["keep", "average", "reset"])
@pytest.mark.parametrize("every", [1, 5])
def test_averaging_what_is_equal_changes_nothing(every: int, inner_state: str) -> None:
    model = Alike(lambda: tf.train.AdamOptimizer(0.1), dtype="float32")
    # In float32, (v + v + v) / 3 is not v.
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    assert ((values + values + values) / np.float32(3) != values).any()
    ours = trained(3, model, sync_every_steps=every, inner_state=inner_state)
    one = train(SimpleTrainer, Alike(lambda: tf.train.AdamOptimizer(0.1), dtype="float32"), **WHOLE)
    if inner_state == "reset":
        assert all(len(set(weights)) == 1 for weights in ours.seen)
        assert ours.seen != [weights * 3 for weights in one.seen]
        return
    assert ours.seen == [weights * 3 for weights in one.seen]
    for name in one.last:
        np.testing.assert_array_equal(ours.last[name], one.last[name], err_msg=name)


def test_outer_gradient_descent_by_one_is_no_outer_optimizer_bit_for_bit() -> None:
    adam = {"make_optimizer": lambda: tf.train.AdamOptimizer(0.3), "dtype": "float32"}
    plain = trained(3, Drawn(**adam), sync_every_steps=4)
    outer = trained(3, Drawn(**adam), sync_every_steps=4, outer_optimizer=tf.train.GradientDescentOptimizer(1.0))
    assert plain.seen == outer.seen
    for name in plain.last:
        np.testing.assert_array_equal(plain.last[name], outer.last[name], err_msg=name)


@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_local_steps_go_on_from_the_checkpoint_of_synchronous_ones(tmp_path: Any, factor: float) -> None:
    def model() -> Drawn:
        return Drawn(lambda: tf.train.MomentumOptimizer(RATE, factor))

    synchronous = trained(2, model(), [ModelSaver(checkpoint_dir=str(tmp_path))], {"max_epoch": 1})
    after = {"session_init": SaverRestore(str(tmp_path / "model-6")), "starting_epoch": 2}
    post_local = trained(2, model(), (), after, sync_every_steps=4)

    weights, velocities, seen = np.zeros(2), np.zeros(2), []
    for step, row in enumerate(TARGETS[:, :2], 1):
        gradients = weights - row
        velocities = factor * velocities + (gradients if step > 6 else gradients.mean())
        weights = weights - RATE * velocities
        if step in (10, 12):
            weights = np.full(2, weights.mean())
        seen.append(weights.tolist())
    assert synchronous.seen + post_local.seen == seen


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_the_outer_optimizer_goes_towards_the_mean(rate: float) -> None:
    def outer(anchor: float, mean: float) -> float:
        return anchor + rate * (mean - anchor)

    found = trained(2, sync_every_steps=3, outer_optimizer=tf.train.GradientDescentOptimizer(rate))
    assert found.seen == local(2, [3, 6, 9, 12], outer)


def test_outer_momentum_with_one_inner_step_is_momentum() -> None:
    found = trained(4, sync_every_steps=1, outer_optimizer=momentum(1.0))
    velocity, weight, seen = 0.0, 0.0, []
    for row in TARGETS:
        velocity = 0.5 * velocity + RATE * (weight - row.mean())
        weight -= velocity
        seen.append([weight] * 4)
    np.testing.assert_allclose(found.seen, seen, rtol=1e-12)
    assert "outer/w/Momentum" in found.last
    assert found.last["outer/w/Momentum"] == pytest.approx(velocity, rel=1e-12)
    # The rate of TensorFlow's momentum is a factor outside of it.
    other = trained(4, Drawn(momentum))
    np.testing.assert_allclose(found.seen, other.seen, rtol=1e-12)


def test_weights_on_a_quadratic_are_those_of_the_closed_form(graph: Any) -> None:
    curvatures, targets, every, rate = np.array([0.5, 1.0]), np.array([3.0, -1.0]), 4, 0.25

    def grads() -> Any:
        weight = tf.get_variable("w", [], tf.float64, tf.zeros_initializer())
        index = current_tower_context().index
        return [(curvatures[index] * (weight - targets[index]), weight)]

    builder = LocalStepsBuilder(2, LocalSteps(every))
    result = builder.build(grads, lambda: tf.train.GradientDescentOptimizer(rate))
    averaging, _ = result.sync_ops
    shrink = (1 - rate * curvatures) ** every
    with run_steps(result, 0) as session:
        for number in range(1, 41):
            for _ in range(every):
                session.run(result.train_op)
            session.run(averaging.op)
            fixed = np.sum((1 - shrink) * targets) / np.sum(1 - shrink)
            expected = fixed * (1 - np.mean(shrink) ** number)
            np.testing.assert_allclose(session.run(result.variables[1][0]), expected, rtol=1e-12)
    # Several local steps end elsewhere than the minimum of the sum.
    assert abs(fixed - np.sum(curvatures * targets) / np.sum(curvatures)) > 0.05


def test_state_of_the_inner_optimizer_is_kept_averaged_or_reset(graph: Any) -> None:
    def slots(inner_state: str) -> tuple[list[float], list[float]]:
        def grads() -> Any:
            weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
            return [(tf.constant(1.0 + current_tower_context().index), weight)]

        with tf.Graph().as_default() as own:
            builder = LocalStepsBuilder(2, LocalSteps(2, inner_state=inner_state))
            result = builder.build(grads, lambda: tf.train.AdagradOptimizer(1.0, initial_accumulator_value=0.5))
            assert builder.own_state == ({"w/Adagrad"} if inner_state == "keep" else set())
            variables = [v for v in tf.global_variables() + tf.local_variables() if "Adagrad" in v.op.name]
            with cpu_session(own, num_cpus=2) as session:
                session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
                session.run(result.init_op)
                session.run(result.train_op)
                before = session.run(variables)
                session.run(result.sync_ops[0].op)
                return before, session.run(variables)

    assert slots("keep") == ([1.5, 4.5], [1.5, 4.5])
    assert slots("average") == ([1.5, 4.5], [3.0, 3.0])
    assert slots("reset") == ([1.5, 4.5], [0.5, 0.5])


def test_a_step_reduces_nothing_and_saves_no_other_variables(graph: Any) -> None:
    result = build(LocalStepsBuilder(3, LocalSteps(2, momentum()), tower_building="copy"))
    averaging, _ = result.sync_ops
    assert averaging.every_steps == 2
    assigned = [op for op in graph.get_operations() if op.name.startswith("average_weights/")]
    assert assigned
    assert not any(dependency_of_targets([result.train_op], op) for op in assigned)
    saved = {variable.op.name for variable in tf.global_variables()}
    inner = {*"abcd", *(f"{name}/Momentum" for name in "abcd")}
    assert saved == inner | {f"outer/{name}/Momentum" for name in "abcd"}


@pytest.mark.parametrize("inner_state", ["keep", "average"])
@pytest.mark.parametrize("outer", [None, tf.train.MomentumOptimizer(0.5, 0.5)])
def test_a_run_that_is_resumed_at_an_epoch_equals_an_uninterrupted_one(
    tmp_path: Any, inner_state: str, outer: Any
) -> None:
    options = {"sync_every_steps": 4, "inner_state": inner_state, "outer_optimizer": outer}
    whole = trained(2, Drawn(momentum), [ModelSaver(checkpoint_dir=str(tmp_path))], {}, **options)
    again = {"session_init": SaverRestore(str(tmp_path / "model-6")), "starting_epoch": 2}
    resumed = trained(2, Drawn(momentum), (), again, **options)
    assert len(resumed.seen) == 6
    assert resumed.seen == whole.seen[6:]
    for name, value in whole.last.items():
        np.testing.assert_array_equal(resumed.last[name], value, err_msg=name)


def test_a_run_goes_on_with_what_reduced_gradients_have_trained(tmp_path: Any) -> None:
    first = trained(4, Drawn(momentum), [ModelSaver(checkpoint_dir=str(tmp_path))], {"max_epoch": 1})
    again = {"session_init": SaverRestore(str(tmp_path / "model-6")), "starting_epoch": 2}
    post_local = trained(4, Drawn(momentum), (), again, sync_every_steps=2)
    synchronous = trained(4, Drawn(momentum), (), again)
    assert post_local.start == synchronous.start == first.seen[-1][0]
    # The velocities go on too: towers of one step each have the mean that synchronous training has.
    assert np.mean(post_local.seen[0]) == synchronous.seen[0][0]
    assert len(set(post_local.seen[0])) > 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"accumulate": 2}, "got accumulate=2: expected 1 with sync_every_steps=4; use one of the two"),
        ({"shard_optimizer": True}, "got shard_optimizer=True: expected False with sync_every_steps=4"),
        ({"average": False}, "got average=False: expected True with sync_every_steps=4"),
        ({"sync_every_steps": 0}, "got sync_every_steps=0: expected an integer of at least 1"),
        ({"inner_state": "drop"}, "got inner_state='drop'"),
        ({"sync_every_steps": None, "inner_state": "reset"}, "got inner_state='reset': expected it together with"),
        (
            {"sync_every_steps": None, "outer_optimizer": tf.train.GradientDescentOptimizer(1.0)},
            "got outer_optimizer=.*: expected it together with sync_every_steps",
        ),
    ],
)
def test_what_cannot_be_together_is_refused_by_name(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^SyncMultiGPUTrainerReplicated {words}"):
        SyncMultiGPUTrainerReplicated(2, **{"sync_every_steps": 4, **options})


def test_other_optimizers_and_scaled_costs_are_refused() -> None:
    with pytest.raises(WrongTypeError, match="outer_optimizer"):
        SyncMultiGPUTrainerReplicated(2, sync_every_steps=4, outer_optimizer="sgd")
    with pytest.raises(ConfigError, match="learning_rate=-1.0"):
        LocalSteps(2, tf.train.GradientDescentOptimizer(-1.0))
    with pytest.raises(ConfigError, match="got precision='float16'.*with sync_every_steps"):
        trained(2, Drawn(dtype="float32"), sync_every_steps=4, precision="float16")
    with tf.Graph().as_default(), pytest.raises(GraphBuildError):
        build(LocalStepsBuilder(2, LocalSteps(2)), "sgd")


def test_one_tower_is_trained_as_by_a_plain_builder() -> None:
    found = []
    for make in (SimpleBuilder, lambda: LocalStepsBuilder(1, LocalSteps(2))):
        with tf.Graph().as_default():
            result = build(make())
            with run_steps(result, 3) as session:
                for sync_op in result.sync_ops:
                    session.run(sync_op.op)
                found.append(session.run(list(result.variables[0])))
    np.testing.assert_array_equal(*found)
