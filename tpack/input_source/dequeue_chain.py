"""Operations of one source that run in the order in which the towers were built.

TensorFlow runs what does not depend on one another in any order. Towers that take from one queue or iterator in the
same step would each get some data point; with the order fixed, tower k always gets the k-th, and a run can be
repeated to the last bit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf


class DequeueChain:
    """Makes each operation wait for the one before.

    A run that takes the data of tower k therefore takes that of the towers before it too.
    """

    def __init__(self) -> None:
        self._last: Any = None

    @contextmanager
    def link(self) -> Iterator[None]:
        """Make what is built in this block run after what was last given to `append`."""
        with tf.control_dependencies([] if self._last is None else [self._last]):
            yield

    def append(self, op: Any) -> None:
        """Let the next block wait for ``op``."""
        self._last = op
