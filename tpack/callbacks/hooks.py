"""Adapters between TensorFlow's session hooks and callbacks: same `before_run` and `after_run`, other begin and end."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.step.hooked_session import HookAdapter
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_arguments

__getattr__ = on_unknown_name(__name__)


@check_arguments
class HookToCallback(Callback):
    """A `tf.train.SessionRunHook` as a callback.

    Args:
        hook: `begin` is called in `setup_graph`, `after_create_session` before training, `end` after it.

    Raises:
        WrongTypeError: ``hook`` is not a session hook.
    """

    _chief_only = False

    def __init__(self, hook: tf.train.SessionRunHook) -> None:
        self._hook = hook
        self._around_runs = HookAdapter(hook)

    def _setup_graph(self) -> None:
        self._hook.begin()

    def _before_train(self) -> None:
        # No coordinator: tpack's threads belong to callbacks.
        self._hook.after_create_session(self.trainer.sess, None)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._hook.before_run(ctx)

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        self._hook.after_run(ctx, values)

    def _after_train(self) -> None:
        self._hook.end(self.trainer.sess)

    def implements(self, hook: str) -> bool:
        """Tell whether the session hook overrides ``hook``."""
        return self._around_runs.implements(hook) if hook in ("before_run", "after_run") else super().implements(hook)

    def __str__(self) -> str:
        return f"HookToCallback({type(self._hook).__name__})"


@check_arguments
class CallbackToHook(tf.train.SessionRunHook):
    """A callback's hooks around runs as a `tf.train.SessionRunHook`; its owner calls the others.

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
        """Pass the fetched values to the callback."""
        self._cb.after_run(run_context, run_values)
