"""Session hooks as members of a hooked session."""

import tensorflow.compat.v1 as tf

from tpack.step.hooked_session import HookAdapter, HookedSession


class Counter(tf.train.SessionRunHook):
    """Asks for a tensor and stops after some runs."""

    def __init__(self, tensor, stop_after):
        self.tensor, self.stop_after, self.seen = tensor, stop_after, []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs({"value": self.tensor})

    def after_run(self, run_context, run_values):
        self.seen.append(run_values.results["value"])
        if len(self.seen) == self.stop_after:
            run_context.request_stop()


class Idle(tf.train.SessionRunHook):
    """Does nothing in a run."""


def test_hooks_ask_are_told_and_stop(session8):
    hook = Counter(tf.constant(7), stop_after=2)
    session = HookedSession(session8, [HookAdapter(hook), HookAdapter(Idle())])
    fetch = tf.constant(5)
    assert [session.run(fetch), session.should_stop(), session.run(fetch)] == [5, False, 5]
    assert session.should_stop()
    assert hook.seen == [7, 7]


def test_only_what_a_hook_does_is_implemented():
    assert [HookAdapter(Counter(None, 1)).implements(name) for name in ("before_run", "after_run")] == [True, True]
    assert [HookAdapter(Idle()).implements(name) for name in ("before_run", "after_run")] == [False, False]
    assert HookAdapter(Idle()).failure() is None
