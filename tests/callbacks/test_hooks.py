import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.base import Callback
from tpack.callbacks.hooks import CallbackToHook, HookToCallback
from tpack.errors import WrongTypeError


class FullHook(tf.train.SessionRunHook):
    def __init__(self):
        self.calls = []

    def begin(self):
        self.tensor = tf.constant(3.0, name="from_hook")
        self.calls.append("begin")

    def after_create_session(self, session, coord):
        assert coord is None
        self.calls.append(("after_create_session", session))

    def before_run(self, run_context):
        assert run_context.session is not None
        return tf.train.SessionRunArgs(self.tensor)

    def after_run(self, run_context, run_values):
        self.calls.append(float(run_values.results))

    def end(self, session):
        self.calls.append(("end", session))


def test_hook_runs_as_a_callback(graph):
    hook = FullHook()
    trainer = FakeTrainer().train([HookToCallback(hook)], steps_per_epoch=2, epochs=(1, 1))
    session = trainer.sess
    assert hook.calls == ["begin", ("after_create_session", session), 3.0, 3.0, ("end", session)]


def test_hook_that_does_nothing_around_a_run_costs_nothing():
    callback = HookToCallback(tf.train.SessionRunHook())
    assert not callback.implements("before_run")
    assert not callback.implements("after_run")
    assert callback.implements("before_train")
    assert str(callback) == "HookToCallback(SessionRunHook)"
    assert HookToCallback(FullHook()).implements("after_run")


def test_something_else_than_a_hook_is_an_error():
    with pytest.raises(WrongTypeError, match="^HookToCallback got hook="):
        HookToCallback(1)


class Fetching(Callback):
    def __init__(self, request):
        self.request, self.got = request, []

    def _before_run(self, ctx):
        return self.request

    def _after_run(self, ctx, values):
        self.got.append(values.results)


def test_callback_runs_as_a_hook(graph):
    tensor = tf.constant(2.0)
    plain, ready, idle = Fetching([tensor]), Fetching(tf.train.SessionRunArgs(tensor)), Fetching(None)
    hooks = [CallbackToHook(cb) for cb in (plain, ready, idle)]
    nothing = tf.no_op()
    with tf.train.SingularMonitoredSession(hooks=hooks) as session:
        session.run(nothing)
    assert (plain.got, ready.got, idle.got) == ([[2.0]], [2.0], [None])
