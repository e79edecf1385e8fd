"""The contract of receivers of statistics: callbacks that open files before training and write them after epochs."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback


class MonitorBase(Callback):
    """The base of receivers of statistics.

    Each statistic is passed once by value (`process_scalar`, `process_image`) and once as a `tf.Summary`
    (`process_summary`): override one of them. Its step and epoch are `global_step` and `epoch_num`.
    """

    reads_statistics = True

    def process(self, name: str, val: float | np.ndarray) -> None:
        """Receive a scalar or an image without a more special method."""

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
        """Receive a `tf.Event`, with its step and time set."""
