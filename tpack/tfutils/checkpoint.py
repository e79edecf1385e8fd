"""Checkpoints: what people call one, what is in it, and how a training writes them one after the other.

A checkpoint is several files: ``model-100.index``, ``model-100.data-00000-of-00001``. People name it by the prefix
``model-100``, by one of the files, by their directory or by the ``checkpoint`` file in it. Only the prefix is used from
here on.

TensorFlow notices a truncated or corrupted file only when the tensors in it are read, each tensor having a checksum. So
a checkpoint is known to be whole once everything in it was read, and not before.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError
from tpack.utils import logger

_FILE_SUFFIX = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
_MAX_LISTED = 20


def resolve_checkpoint(path: str) -> str:
    """Return the prefix of the checkpoint that ``path`` means.

    Args:
        path: a prefix, one of the checkpoint's files, a directory of checkpoints, or the ``checkpoint`` file in one.
            A directory means the newest checkpoint in it that loads.

    Raises:
        CheckpointError: There is none. The message lists what is in the directory.
    """
    path = os.path.expanduser(os.fspath(path))
    if os.path.basename(path) == "checkpoint" and tf.io.gfile.exists(path):
        path = os.path.dirname(path) or "."
    if tf.io.gfile.isdir(path):
        prefix = latest_checkpoint(path)
        if prefix is None:
            raise CheckpointError(f"wanted a directory with a checkpoint, and {path} has none. {_listing(path)}")
        return prefix
    prefix = _FILE_SUFFIX.sub("", path)
    # A file of the prefix's own name is a checkpoint in the format before TensorFlow 1.0, which can still be read.
    if tf.io.gfile.exists(prefix + ".index") or tf.io.gfile.exists(prefix):
        return prefix
    raise CheckpointError(f"there is no checkpoint {path}. {_listing(os.path.dirname(path) or '.')}")


def latest_checkpoint(checkpoint_dir: str) -> str | None:
    """Return the prefix of the newest checkpoint in a directory that really loads, or None.

    The one that the ``checkpoint`` file names comes first. If it is missing or damaged, for example because the process
    was killed, a warning says so and the others are tried, the newest first.
    """
    if not tf.io.gfile.isdir(checkpoint_dir):
        return None
    for prefix in _candidates(checkpoint_dir):
        try:
            CheckpointReader(prefix).check()
        except CheckpointError as error:
            logger.warning(f"Skipping a checkpoint that does not load: {error}")
        else:
            return prefix
    return None


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

    def __reduce__(self) -> tuple[type["CheckpointReader"], tuple[str]]:
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


class CheckpointSeries:
    """The checkpoints ``NAME-STEP`` that a training writes into a directory, the oldest of which the saver deletes.

    Those that former runs left there count for how many the saver keeps.

    Args:
        saver: knows which variables are saved, and how many checkpoints are kept.
        directory: where to.
        name: what all of them are called.

    Attributes:
        saved_step: the step of the last one; None before the first.
    """

    def __init__(self, saver: tf.train.Saver, directory: str, name: str) -> None:
        self._saver = saver
        self._path = os.path.join(directory, name)
        self.saved_step: int | None = None
        saver.set_last_checkpoints_with_time(_former_checkpoints(directory))

    def prefix(self, step: int) -> str:
        """Return the prefix of the checkpoint of a step."""
        return f"{self._path}-{step}"

    def save(self, session: tf.Session, step: int) -> str:
        """Save the checkpoint of a step and return its prefix.

        Raises:
            CheckpointError: It could not be written; the message names it.
        """
        saved = save_checkpoint(self._saver, session, self._path, step)
        self.saved_step = step
        return saved


def save_checkpoint(
    saver: tf.train.Saver, session: tf.Session, path: str, step: int | None = None, *, write_state: bool = True
) -> str:
    """Save one checkpoint without the meta graph, and return its prefix.

    Args:
        saver: knows which variables.
        session: the session; neither it nor its graph need be the default one.
        path: the prefix, to which the step is appended if there is one.
        step: the global step.
        write_state: name it as the newest one in the directory's ``checkpoint`` file.

    Raises:
        CheckpointError: It could not be written; the message names it.
    """
    named = path if step is None else f"{path}-{step}"
    try:
        # A session being the default one does not make its graph so, and outside a graph the saver saves nothing.
        with session.graph.as_default():
            prefix: str = saver.save(session, path, step, write_meta_graph=False, write_state=write_state)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise CheckpointError(f"cannot write checkpoint {named}: {error}") from error
    return prefix


def _candidates(checkpoint_dir: str) -> list[str]:
    """Return the prefixes of a directory's checkpoints: the one that it names as the latest, then the newest first."""
    names = [name.removesuffix(".index") for name in tf.io.gfile.listdir(checkpoint_dir) if name.endswith(".index")]
    prefixes = [os.path.join(checkpoint_dir, name) for name in names]
    prefixes.sort(key=_age_key, reverse=True)
    named = _named_checkpoint(checkpoint_dir)
    return [named, *(prefix for prefix in prefixes if prefix != named)] if named else prefixes


def _named_checkpoint(checkpoint_dir: str) -> str | None:
    """Return the prefix that a directory's ``checkpoint`` file names, or None when it names nothing."""
    try:
        state = tf.train.get_checkpoint_state(checkpoint_dir)
    except ValueError as error:
        logger.warning(f"The file that names the latest checkpoint of {checkpoint_dir} is damaged: {error}")
        return None
    if state is None:
        return None
    # A directory that was moved still names its checkpoints by where they were saved.
    return os.path.join(checkpoint_dir, os.path.basename(state.model_checkpoint_path))


def _age_key(prefix: str) -> tuple[int, int, str]:
    """Order checkpoints by when they were written; files that were copied in one go, by the number in their names."""
    number = re.search(r"-(\d+)$", prefix)
    written = tf.io.gfile.stat(prefix + ".index").mtime_nsec
    return written, int(number.group(1)) if number else -1, prefix


def _listing(directory: str) -> str:
    if not tf.io.gfile.isdir(directory):
        return f"There is no directory {directory} either"
    names = sorted(tf.io.gfile.listdir(directory))
    if not names:
        return f"The directory {directory} is empty"
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"The directory {directory} has: {', '.join(names[:_MAX_LISTED])}{more}"


def _former_checkpoints(directory: str) -> list[tuple[str, float]]:
    """Return the checkpoints that a directory's ``checkpoint`` file names and when each was saved, the oldest first."""
    state = tf.train.get_checkpoint_state(directory)
    paths = [] if state is None else state.all_model_checkpoint_paths
    return [(path, os.path.getmtime(f"{path}.index")) for path in paths if os.path.exists(f"{path}.index")]
