"""When the towers are brought together: before each epoch, or every so many steps, as local SGD does."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.base import Callback
from tpack.callbacks.group import Callbacks, ProxyCallback
from tpack.callbacks.saver import ModelSaver
from tpack.errors import GraphBuildError, WrongTypeError
from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn, SyncOp
from tpack.graph_builder.replicated import apply_in_replicas, build_replicas, copy_to_replicas
from tpack.graph_builder.towers import DataParallelBuilder
from tpack.input_source.tensors import TensorInput
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.schedules import Constant, Linear
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.tfutils.sessinit import SaverRestore
from tpack.tower.context import current_tower_context
from tpack.train.single_cost import BuilderTrainer, SyncBeforeEpoch, SyncEverySteps, sync_callback
from tpack.train.trainers import SyncMultiGPUTrainerReplicated

RATE = 0.1
# What the weight of each tower is drawn to.
TARGETS = np.float32([1.0, 5.0])


def test_copies_follow_by_the_first_step_whatever_the_order_of_callbacks(graph: Any) -> None:
    main, copy = (tf.get_variable(name, initializer=0.0) for name in ("main", "copy"))
    value = tf.identity(copy)
    seen = []

    class Change(Callback):
        def _before_train(self) -> None:
            main.load(1.0, self.trainer.sess)

        def _before_run(self, ctx: Any) -> Any:
            return value

        def _after_run(self, ctx: Any, values: Any) -> None:
            seen.append(values.results)

        def _trigger_epoch(self) -> None:
            main.load(self.epoch_num + 1.0, self.trainer.sess)

    sync = SyncBeforeEpoch(tf.assign(copy, main.read_value()).op)
    FakeTrainer().train([sync, Change()], epochs=(1, 3), steps_per_epoch=1)
    assert seen == [1.0, 2.0, 3.0]
    assert not sync.chief_only


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_what_callbacks_do_before_an_epoch_is_in_all_towers_in_its_first_step(is_wrapped: bool) -> None:
    class Change(Callback):
        def _setup_graph(self) -> None:
            self.main = self.trainer.towers[0].get_variable("w")

        def _before_epoch(self) -> None:
            if self.epoch_num == 2:
                self.main.load(9.0, self.trainer.sess)

    weights, change = Weights(), Change()
    with tf.Graph().as_default():
        trainer = SyncMultiGPUTrainerReplicated(2)
        trainer.setup_graph(
            [tf.TensorSpec([], tf.float32, "target")], own_target_input(), build_graph, gradient_descent
        )
        callbacks = [weights, Callbacks([ProxyCallback(change)]) if is_wrapped else change]
        trainer.train_with_defaults(
            callbacks=callbacks, monitors=[], extra_callbacks=[], steps_per_epoch=2, max_epoch=2
        )
    weight, expected = 0.0, []
    for step in range(4):
        weight = 9.0 if step == 2 else weight
        weight -= RATE * (weight - TARGETS.mean())
        expected.append([weight, weight])
    np.testing.assert_allclose(weights.seen, expected, rtol=1e-6)


class Note(Callback):
    """Notes the steps at which a counter has a new value, as callbacks after it see it."""

    def __init__(self, counter: Any) -> None:
        self.counter = counter
        self.steps: list[int] = []
        self.count = 0

    def _look(self) -> None:
        count = int(self.trainer.sess.run(self.counter))
        self.steps += [self.global_step] * (count - self.count)
        self.count = count

    _trigger_step = _after_train = _look


@pytest.mark.parametrize(
    ("every_steps", "steps"),
    [
        (3, [3, 5, 8, 10]),
        (5, [5, 10]),
        (1, list(range(1, 11))),
        (100, [5, 10]),
        (Constant(2, 1).then(Constant(4)), [2, 4, 5, 9, 10]),
        (Linear(0.6, 3.4, 1), [1, 2, 3, 4, 5, 8, 10]),
    ],
)
def test_every_steps_is_counted_in_each_epoch_which_ends_together(
    graph: Any, every_steps: Any, steps: list[int]
) -> None:
    counter = tf.get_variable("counter", initializer=0)
    note = Note(counter)
    sync = sync_callback(SyncOp(tf.assign_add(counter, 1).op, every_steps))
    FakeTrainer().train([sync, note], epochs=(1, 2), steps_per_epoch=5)
    assert note.steps == steps
    assert not sync.chief_only


@pytest.mark.parametrize(("stops_after", "steps"), [(3, [3]), (4, [3, 4])])
def test_what_is_saved_on_a_signal_is_of_all_towers(graph: Any, stops_after: int, steps: list[int]) -> None:
    counter = tf.get_variable("counter", initializer=0)
    note = Note(counter)
    trainer = FakeTrainer()
    sync = SyncEverySteps(SyncOp(tf.assign_add(counter, 1).op, 3))
    trainer.setup([sync, note])
    trainer.steps_per_epoch = 9
    trainer.callbacks.before_train()
    for step in range(stops_after):
        trainer.global_step = trainer.local_step = step + 1
        trainer.callbacks.trigger_step()
    trainer.interrupted = True
    trainer.callbacks.after_train()
    assert note.steps == steps


class LocalSGDBuilder(DataParallelBuilder):
    """Trains each tower on its own data alone, and averages the weights every so many steps."""

    def __init__(self, towers: int, every_steps: int) -> None:
        super().__init__(towers)
        self._every_steps = every_steps

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        towers = build_replicas(grad_fn, self.devices)
        train_op = apply_in_replicas(towers.contexts, towers.outputs, optimizer_fn())
        copying = copy_to_replicas(towers.contexts)
        weights = [[variable for _, variable in pairs] for pairs in towers.outputs]
        averages = RoundRobinReducer().reduce([[variable.read_value() for variable in own] for own in weights])
        averaging = tf.group(
            *(
                v.assign(mean)
                for own, means in zip(weights, averages, strict=True)
                for v, mean in zip(own, means, strict=True)
            )
        )
        sync_ops = (SyncOp(copying.op), SyncOp(averaging, self._every_steps))
        return BuildResult(train_op, towers.contexts, copying.op, sync_ops, copying.copies)


class Weights(Callback):
    """Notes the weight of each tower after each step."""

    def __init__(self) -> None:
        self.seen: list[list[float]] = []

    def _setup_graph(self) -> None:
        self._weights = [tower.get_variable("w") for tower in self.trainer.towers]

    def _trigger_step(self) -> None:
        self.seen.append(self.trainer.sess.run(self._weights))


def build_graph(target: Any) -> Any:
    weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    return tf.square(weight - target) / 2


def own_target_input() -> TensorInput:
    return TensorInput(lambda: [tf.constant(TARGETS[current_tower_context().index])], size=5)


def gradient_descent() -> Any:
    return tf.train.GradientDescentOptimizer(RATE)


def train(epochs: range, callbacks: Any = (), session_init: Any = None) -> list[list[float]]:
    """Train two towers, 5 steps an epoch, that meet after 3 and 5 of them; return their weights after each step."""
    weights = Weights()
    with tf.Graph().as_default():
        trainer = BuilderTrainer(LocalSGDBuilder(2, every_steps=3))
        trainer.setup_graph(
            [tf.TensorSpec([], tf.float32, "target")], own_target_input(), build_graph, gradient_descent
        )
        trainer.train_with_defaults(
            callbacks=[weights, *callbacks],
            monitors=[],
            extra_callbacks=[],
            session_init=session_init,
            steps_per_epoch=5,
            starting_epoch=epochs.start,
            max_epoch=epochs.stop - 1,
        )
    return weights.seen


def oracle(num_steps: int) -> np.ndarray:
    """Return the weights after each step as numpy has them."""
    weights, seen = np.zeros(2), []
    for step in range(1, num_steps + 1):
        weights = weights - RATE * (weights - TARGETS)
        if step % 5 in (3, 0):
            weights = np.full(2, weights.mean())
        seen.append(weights)
    return np.array(seen)


def test_local_sgd_is_a_builder_whose_sync_op_says_when_towers_meet() -> None:
    np.testing.assert_allclose(train(range(1, 5)), oracle(20), rtol=1e-5)


def test_local_sgd_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(tmp_path: Any) -> None:
    first = train(range(1, 3), [ModelSaver(checkpoint_dir=str(tmp_path))])
    second = train(range(3, 5), session_init=SaverRestore(latest_checkpoint(str(tmp_path))))
    assert [*first, *second] == train(range(1, 5))


def test_what_callbacks_do_to_the_main_tower_reaches_the_others_before_their_next_step() -> None:
    class Meddle(Callback):
        def _setup_graph(self) -> None:
            self.main = self.trainer.towers[0].get_variable("w")

        def _trigger_epoch(self) -> None:
            self.main.load(2.0, self.trainer.sess)

    seen = train(range(1, 3), [Meddle()])
    np.testing.assert_allclose(seen[5], 2.0 - RATE * (2.0 - TARGETS), rtol=1e-6)


def test_a_sync_op_that_does_not_say_when_is_refused(graph: Any) -> None:
    op = tf.no_op()
    with pytest.raises(GraphBuildError, match="got sync_op=<tf.Operation.*: expected a SyncOp"):
        BuildResult(op, (), sync_op=op)
    with pytest.raises(GraphBuildError, match="got sync_op=3: expected a SyncOp"):
        BuildResult(op, (), sync_op=(SyncOp(op), 3))
    with pytest.raises(WrongTypeError, match="^SyncOp got op="):
        SyncOp(3)
    for wrong in (0, -1):
        with pytest.raises(GraphBuildError, match="got every_steps=.*: expected an integer of at least 1"):
            SyncOp(op, wrong)
    for wrong in (2.0, True, "3"):
        with pytest.raises(WrongTypeError, match="^SyncOp got every_steps=.*: expected an integer or a Schedule"):
            SyncOp(op, wrong)
    assert BuildResult(op, ()).sync_ops == ()
