"""The contract of what receives statistics during training.

A monitor is a callback too, so that it can open files before training, write them after an epoch and close them in
the end.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback


class MonitorBase(Callback):
    """Receive statistics; subclasses override what they want.

    Each statistic comes once as what it is (`process_scalar`, `process_image`) and once as a `tf.Summary`
    (`process_summary`): a monitor overrides one or the other. The step and the epoch that it belongs to are
    `global_step` and `epoch_num`.
    """

    reads_statistics = True

    def process(self, name: str, val: float | np.ndarray) -> None:
        """Receive a scalar or an image that no more special method took."""

    def process_scalar(self, name: str, val: float) -> None:
        """Receive a number, which may be NaN."""
        self.process(name, val)

    def process_image(self, name: str, val: np.ndarray) -> None:
        """Receive a batch of images.

        Shapes:
            val: [batch, height, width, channels], uint8 or float in 0 to 255.
        """
        self.process(name, val)

    def process_summary(self, summary: tf.Summary) -> None:
        """Receive a `tf.Summary`."""

    def process_event(self, evt: tf.Event) -> None:
        """Receive a `tf.Event`, which may hold anything and has its step and time set."""
