"""An end to steps that would wait for ever."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import ConfigError


class SessionRunTimeout(Callback):
    """End training with a `StepTimeoutError` when a step takes too long.

    It costs a step nothing. It sees only what runs in the session, and does not tell what the step waited for: for that
    there is `Watchdog`.

    Args:
        timeout_in_ms: how long a step may take.

    Raises:
        ConfigError: ``timeout_in_ms`` is no positive integer.
    """

    _chief_only = False

    def __init__(self, timeout_in_ms: int) -> None:
        if not isinstance(timeout_in_ms, int) or timeout_in_ms < 1:
            raise ConfigError(f"SessionRunTimeout wants a positive integer of milliseconds, got {timeout_in_ms!r}")
        self._request = tf.train.SessionRunArgs(fetches=None, options=tf.RunOptions(timeout_in_ms=timeout_in_ms))

    def _before_run(self, ctx: Any) -> Any:
        return self._request
