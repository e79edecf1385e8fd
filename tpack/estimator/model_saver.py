"""The saver of a model that has none of its own: all variables, and only into variables of their shapes."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError
from tpack.tfutils.checkpoint_reader import CheckpointReader


class WholeModelSaver(tf.train.Saver):
    """A ``tf.train.Saver`` of all variables that looks at shapes before it restores.

    TensorFlow gives a variable a value of any shape from a checkpoint, and the model fails or goes wrong later.

    Args:
        **options: as for ``tf.train.Saver``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(save_relative_paths=True, defer_build=True, **options)

    def restore(self, sess: Any, save_path: str) -> None:
        """Restore a checkpoint.

        Args:
            sess: the session.
            save_path: the prefix of the checkpoint.

        Raises:
            CheckpointError: It is damaged, or a variable has another shape in it. Nothing was restored then.
        """
        saved = CheckpointReader(save_path).shapes
        for variable in sess.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES):
            name = variable.op.name
            if name in saved and not variable.shape.is_compatible_with(saved[name]):
                raise CheckpointError(
                    f"the checkpoint {save_path} does not fit the model: {name} has the shape {saved[name]} in it, and "
                    f"{variable.shape} in the model"
                )
        super().restore(sess, save_path)
