"""Read a checkpoint's values without a graph, with errors that name the checkpoint.

TensorFlow notices a truncated or corrupted file only when the tensors in it are read, each tensor having a checksum. So
a checkpoint is known to be whole once everything in it was read, and not before.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError


class CheckpointReader:
    """The names, shapes, dtypes and values in one checkpoint.

    Args:
        prefix: what the names of the checkpoint's files begin with; see ``resolve_checkpoint``.

    Raises:
        CheckpointError: The checkpoint is missing, or its index is damaged.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        with self._named_errors("index"):
            self._reader = tf.train.NewCheckpointReader(prefix)
        self.shapes: dict[str, list[int]] = self._reader.get_variable_to_shape_map()

    def __reduce__(self) -> Any:
        # TensorFlow's reader cannot be sent to another process; opening the files again can.
        return CheckpointReader, (self.prefix,)

    def read(self, name: str) -> Any:
        """Return one value as a numpy array.

        Raises:
            CheckpointError: There is none of this name, or the data is damaged.
        """
        if name not in self.shapes:
            raise CheckpointError(f"the checkpoint {self.prefix} has no variable {name!r}")
        with self._named_errors(f"data of the variable {name!r}"):
            return self._reader.get_tensor(name)

    def check(self) -> None:
        """Read everything once.

        Raises:
            CheckpointError: Something is damaged.
        """
        for name in sorted(self.shapes):
            self.read(name)

    @contextmanager
    def _named_errors(self, part: str) -> Iterator[None]:
        # Most failures come as OpError without a subclass, and a data file that ends too early as IndexError.
        try:
            yield
        except tf.errors.NotFoundError as error:
            raise CheckpointError(f"there is no checkpoint {self.prefix}: {error}") from error
        except (tf.errors.OpError, LookupError, RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint {self.prefix} is damaged: its {part} cannot be read ({error}). It may have been "
                "truncated; load an earlier one"
            ) from error
