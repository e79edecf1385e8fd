"""What the callbacks that save checkpoints share: where to, which variables, and an error that names the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import CallbackError, CheckpointError
from tpack.utils import logger


def prepare_checkpoint_dir(callback: Any, directory: str | None) -> str:
    """Return the directory for checkpoints, the logger's unless given, after making sure that it exists.

    Raises:
        CallbackError: there is none.
        CheckpointError: it can not be made.
    """
    directory = directory or logger.get_logger_dir()
    if directory is None:
        raise CallbackError(f"{callback} wants a checkpoint_dir, or a directory of the logger (logger.set_logger_dir)")
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot make the directory for checkpoints {directory}: {error}") from error
    return directory


def make_saver(callback: Any, collections: Sequence[str], **options: Any) -> Any:
    """Return a `tf.train.Saver` of all variables in the collections.

    Args:
        callback: who wants it, for the error.
        collections: keys of graph collections.
        **options: further arguments of the saver.

    Raises:
        CallbackError: the collections hold no variable.
    """
    variables = list({id(v): v for key in collections for v in tf.get_collection(key)}.values())
    if not variables:
        raise CallbackError(f"{callback} has nothing to save: no variables in the collections {', '.join(collections)}")
    return tf.train.Saver(variables, save_relative_paths=True, **options)


def save_checkpoint(saver: Any, session: Any, path: str, **options: Any) -> str:
    """Save without the meta graph and return the checkpoint's prefix.

    Raises:
        CheckpointError: it could not be written; the message names the path.
    """
    try:
        # A session being the default one does not make its graph so, and outside a graph the saver saves nothing.
        with session.graph.as_default():
            return saver.save(session, path, write_meta_graph=False, **options)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise CheckpointError(f"cannot write checkpoint {path}: {error}") from error
