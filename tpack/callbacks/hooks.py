"""TensorFlow's session hooks used as callbacks, and callbacks used as session hooks.

Both have a `before_run` and an `after_run` around each run; what differs is how they begin and end.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.step.hooked_session import HookAdapter
from tpack.utils.validation import check_arguments


@check_arguments
class HookToCallback(Callback):
    """Use a `tf.train.SessionRunHook` as a callback.

    Args:
        hook: `begin` is called in `setup_graph`, `after_create_session` before training, `end` after it.

    Raises:
        WrongTypeError: ``hook`` is no session hook.
    """

    _chief_only = False

    def __init__(self, hook: tf.train.SessionRunHook) -> None:
        self._hook = hook
        self._around_runs = HookAdapter(hook)

    def _setup_graph(self) -> None:
        self._hook.begin()

    def _before_train(self) -> None:
        # There is no coordinator: tpack's threads belong to callbacks.
        self._hook.after_create_session(self.trainer.sess, None)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._hook.before_run(ctx)

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        self._hook.after_run(ctx, values)

    def _after_train(self) -> None:
        self._hook.end(self.trainer.sess)

    def implements(self, hook: str) -> bool:
        """Tell whether the session hook overrides the method of the same name."""
        if hook in ("before_run", "after_run"):
            return self._around_runs.implements(hook)
        return super().implements(hook)

    def __str__(self) -> str:
        return f"HookToCallback({type(self._hook).__name__})"


@check_arguments
class CallbackToHook(tf.train.SessionRunHook):
    """Use what a callback does around each run as a `tf.train.SessionRunHook`; its owner calls the other methods.

    Args:
        cb: the callback.
    """

    def __init__(self, cb: Callback) -> None:
        self._cb = cb

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        """Return the callback's fetches as `SessionRunArgs`."""
        fetches = self._cb.before_run(run_context)
        if fetches is None or isinstance(fetches, tf.train.SessionRunArgs):
            return fetches
        return tf.train.SessionRunArgs(fetches)

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Give the callback the values of what it asked for."""
        self._cb.after_run(run_context, run_values)
