import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.errors import CallbackError, TowerError
from tpack.tower.context import TowerContext
from tpack.tower.tower_func import TowerFunc

HOOKS = [
    "setup_graph",
    "before_train",
    "before_epoch",
    "before_run",
    "after_run",
    "trigger_step",
    "after_epoch",
    "trigger_epoch",
    "trigger",
    "after_train",
]


class Witness(Callback):
    """Writes down which hooks are called, with the epoch and the step."""

    def __init__(self):
        self.calls = []

    def note(self, hook):
        self.calls.append((hook, self.epoch_num, self.local_step, self.global_step))

    def _setup_graph(self):
        self.note("setup_graph")

    def _before_train(self):
        self.note("before_train")

    def _before_epoch(self):
        self.note("before_epoch")

    def _before_run(self, ctx):
        self.note("before_run")

    def _after_run(self, ctx, values):
        assert values.results is None
        self.note("after_run")

    def _trigger_step(self):
        self.note("trigger_step")

    def _after_epoch(self):
        self.note("after_epoch")

    def _trigger(self):
        self.note("trigger")

    def _after_train(self):
        self.note("after_train")


def test_life_cycle_is_the_one_of_the_docstring(graph):
    witness = Witness()
    FakeTrainer().train([witness], steps_per_epoch=2, epochs=(1, 2))
    epoch = ["before_epoch", *["before_run", "after_run", "trigger_step"] * 2, "after_epoch", "trigger"]
    assert [call[0] for call in witness.calls] == ["setup_graph", "before_train", *epoch, *epoch, "after_train"]
    assert [call[1:] for call in witness.calls if call[0] == "trigger"] == [(1, 2, 2), (2, 2, 4)]


def test_trigger_epoch_override_replaces_trigger(graph):
    class EpochOnly(Callback):
        num_epochs = num_triggers = 0

        def _trigger_epoch(self):
            self.num_epochs += 1

        def _trigger(self):
            self.num_triggers += 1

    callback = EpochOnly()
    FakeTrainer().train([callback])
    assert (callback.num_epochs, callback.num_triggers) == (2, 0)


def test_implements_tells_what_a_class_overrides():
    class Some(Callback):
        def _before_run(self, ctx):
            return None

        def _trigger(self):
            pass

        def failure(self):
            return None

    class Public(Callback):
        def after_run(self, ctx, values):
            pass

    found = {hook for hook in [*HOOKS, "failure"] if Some().implements(hook)}
    assert found == {"before_run", "trigger", "trigger_epoch", "failure"}
    assert Public().implements("after_run")
    assert not any(Callback().implements(hook) for hook in [*HOOKS, "failure", "no_such_hook"])


def test_implements_sees_a_method_set_on_the_object():
    callback = Callback()
    callback._trigger_step = lambda: None
    assert callback.implements("trigger_step")


def test_chief_only_can_be_set_and_is_true_at_first():
    callback = Callback()
    assert callback.chief_only
    assert callback.set_chief_only(False) is callback
    assert not callback.chief_only


@pytest.mark.parametrize(("name", "expected"), [("", "_Adds".lstrip("_")), ("mine", "mine")])
def test_ops_are_made_in_the_name_scope(graph, name, expected):
    class _Adds(Callback):
        def _setup_graph(self):
            self.op = tf.no_op(name="op")

    callback = _Adds()
    if name:
        callback.name_scope = name
    callback.setup_graph(FakeTrainer())
    assert callback.op.name == f"{expected}/op"
    assert callback.graph is graph


def test_second_setup_is_an_error(graph):
    callback, trainer = Callback(), FakeTrainer()
    callback.setup_graph(trainer)
    with pytest.raises(CallbackError, match="Callback was set up before: expected one object for each training"):
        callback.setup_graph(trainer)


def test_trainer_before_setup_is_an_error():
    with pytest.raises(CallbackError, match="Callback has no trainer yet"):
        Callback().epoch_num  # noqa: B018


def make_tower_func(*, is_training=True):
    def model(x):
        tf.identity(x, name="inside")

    tower_func = TowerFunc(model, [tf.TensorSpec([2], tf.float32, name="x")])
    with TowerContext("tower0", is_training=is_training):
        tower_func(tf.zeros([2]))
    return tower_func


def test_get_tensors_maybe_in_tower_looks_in_graph_then_tower(graph):
    outside = tf.zeros([], name="outside")
    tower_func = make_tower_func()
    callback = Callback()
    callback.setup_graph(FakeTrainer(tower_func=tower_func))
    found = callback.get_tensors_maybe_in_tower(["outside:0", "inside", "x"])
    handle = tower_func.towers[0]
    assert found[0] is outside
    assert found[1].name == "tower0/inside:0"
    assert found[2] is handle.inputs[0]


def test_get_tensors_maybe_in_tower_names_what_is_missing(graph):
    callback = Callback()
    callback.setup_graph(FakeTrainer())
    with pytest.raises(CallbackError, match="Callback got tensor 'nothing:0': the graph has no such tensor"):
        callback.get_tensors_maybe_in_tower(["nothing"])
    in_tower = Callback()
    in_tower.setup_graph(FakeTrainer(tf.no_op(), make_tower_func()))
    with pytest.raises(TowerError, match="no tensor 'nothing'"):
        in_tower.get_tensors_maybe_in_tower(["nothing"])


def test_get_tensors_maybe_in_tower_looks_in_no_prediction_tower(graph):
    callback = Callback()
    callback.setup_graph(FakeTrainer(tf.no_op(), make_tower_func(is_training=False)))
    with pytest.raises(CallbackError, match="got tensor 'inside:0': the graph has no such tensor"):
        callback.get_tensors_maybe_in_tower(["inside"])


def test_callback_factory_calls_its_functions(graph):
    calls = []
    callback = CallbackFactory(
        setup_graph=lambda cb: calls.append(("setup_graph", cb)),
        before_train=lambda cb: calls.append(("before_train", cb)),
        trigger=lambda cb: calls.append(("trigger", cb)),
        after_train=lambda cb: calls.append(("after_train", cb)),
    )
    FakeTrainer().train([callback], epochs=(1, 2))
    assert [name for name, _ in calls] == ["setup_graph", "before_train", "trigger", "trigger", "after_train"]
    assert all(cb is callback for _, cb in calls)
    assert str(callback) == "CallbackFactory(setup_graph, before_train, trigger, after_train)"


def test_callback_factory_without_functions_does_nothing(graph):
    callback = CallbackFactory()
    trainer = FakeTrainer().train([callback])
    assert trainer.global_step == 4
    assert callback.failure() is None


def test_a_hook_is_bound_to_the_method_that_a_subclass_overrides():
    class Inner(Callback):
        def _trigger_step(self):
            return "inner"

    class Outer(Callback):
        def trigger_step(self):
            return "outer"

    assert Inner().bound("trigger_step")() == "inner"
    assert Outer().bound("trigger_step")() == "outer"
    assert Callback().bound("before_run")(None) is None


@pytest.mark.parametrize("use_resource", [True, False])
def test_the_name_of_a_variable_means_its_value(graph, use_resource):
    tf.get_variable("rate", initializer=0.5, use_resource=use_resource)
    tf.get_variable("local", initializer=2.0, use_resource=use_resource, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    callback, trainer = Callback(), FakeTrainer()
    callback.setup_graph(trainer)
    tensors = callback.get_tensors_maybe_in_tower(["rate", "local:0"])
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        assert session.run(tensors) == [0.5, 2.0]
