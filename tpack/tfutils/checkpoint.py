"""Checkpoints: their names, their content, and the series that a training writes.

A checkpoint is several files: ``model-100.index``, ``model-100.data-00000-of-00001``. It may be named by its prefix
``model-100``, one of the files, their directory or the ``checkpoint`` file in it. Remote checkpoints are fetched by
fsspec, or else read by TensorFlow; a series is written on this machine.

TensorFlow notices a truncated or corrupted file only when its tensors are read, each with a checksum, so a checkpoint
is known to be whole only after everything in it was read.
"""

import glob
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError, ConfigError, DependencyError, InputError, RemoteError
from tpack.tfutils.checkpoints.best import BEST_SUFFIX, best_prefix
from tpack.utils import logger
from tpack.utils.fs import atomic_write, leftover_of, why_not_written
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_path, is_remote

_remote = LazyModule("tpack.utils.remote.directories")
_FILE_SUFFIX = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
_MAX_LISTED = 20

_ONE_PART = "Does not have sufficient slices"
"""What TensorFlow says where a checkpoint has a part of a variable and not the whole."""


def resolve_checkpoint(path: str) -> str:
    """Return the prefix of the checkpoint that ``path`` means.

    Args:
        path: a prefix, one of the checkpoint's files, or a directory or its ``checkpoint`` file, which mean the newest
            checkpoint that loads. The name of several best ones, such as ``min-cost``, means the best of them.

    Raises:
        ConfigError: It is no path.
        CheckpointError: There is none. The message lists the checkpoints in the directory, those of near names first.
    """
    path = fetched(os.path.expanduser(check_path("resolve_checkpoint", "path", path)))
    if os.path.basename(path) == "checkpoint" and _is_there(path):
        path = os.path.dirname(path) or "."
    if not _is_there(path + ".index") and _is_there(path, directory=True):
        prefix = latest_checkpoint(path)
        if prefix is None:
            raise CheckpointError(f"got {path}: expected a directory with a checkpoint. {_listing(path)}")
        return prefix
    prefix = _FILE_SUFFIX.sub("", path)
    # A file of the prefix's own name is a checkpoint in the format before TensorFlow 1.0, which can still be read.
    if _is_there(prefix + ".index") or _is_there(prefix):
        return prefix
    best = _best_of(prefix)
    if best is not None:
        return best
    directory, name = os.path.split(prefix)
    raise CheckpointError(f"there is no checkpoint {path}. {_listing(directory or '.', name)}")


def fetched(path: str) -> str:
    """Return where a file or checkpoint, perhaps a remote one, can be read on this machine.

    Raises:
        CheckpointError: It is missing or cannot be fetched, and TensorFlow cannot read such URLs.
    """
    try:
        return path if not is_remote(path) else _remote.local_path(path)
    except RemoteError as error:
        raise CheckpointError(str(error)) from error
    except (ConfigError, DependencyError) as error:
        if path.partition("://")[0] in tf.io.gfile.get_registered_schemes():
            return path
        raise CheckpointError(str(error)) from error


def _best_of(path: str) -> str | None:
    """Return the best checkpoint of a `MinSaver` that keeps several; None if the path does not name one."""
    try:
        return best_prefix(path)
    except InputError as error:
        raise CheckpointError(f"{path}{BEST_SUFFIX} is damaged: {error}") from error


def latest_checkpoint(checkpoint_dir: str) -> str | None:
    """Return the prefix of the newest checkpoint in a directory that loads, or None if it has none.

    The one that the ``checkpoint`` file names comes first. If it is missing or damaged, for example after a kill, a
    warning is logged and the others are tried, the newest first.

    Raises:
        CheckpointError: There are checkpoints, and none of them loads; a new run would overwrite them.
    """
    if not _is_there(checkpoint_dir, directory=True):
        return None
    skipped = []
    for prefix in _candidates(checkpoint_dir):
        try:
            CheckpointReader(prefix).check()
        except CheckpointError as error:
            logger.warning(f"Skipping a checkpoint that does not load: {error}")
            skipped.append(os.path.basename(prefix))
        else:
            return prefix
    if skipped:
        found = f"{len(skipped)} checkpoint(s), and none of them loads: {_some_of(skipped)}"
        raise CheckpointError(f"{checkpoint_dir} has {found}; move them elsewhere or use another directory")
    return None


class CheckpointReader:
    """The names, shapes, dtypes and values in the checkpoint of a prefix.

    Raises:
        CheckpointError: The checkpoint is missing, or its index is damaged.
        RemoteError: Its data are on remote storage, which cannot be read.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        if _remote.is_loaded():
            _remote.fetch_checkpoint(prefix)
        with self._named_errors("index"):
            self._reader = tf.train.NewCheckpointReader(prefix)
        self.shapes: dict[str, list[int]] = self._reader.get_variable_to_shape_map()

    def __reduce__(self) -> tuple[type["CheckpointReader"], tuple[str]]:
        # TensorFlow's reader cannot be sent to another process; opening the files again can.
        return CheckpointReader, (self.prefix,)

    def read(self, name: str) -> Any:
        """Return one value as a numpy array.

        Raises:
            CheckpointError: The name is unknown, or the data is damaged.
        """
        if name not in self.shapes:
            raise CheckpointError(f"the checkpoint {self.prefix} has no variable {name!r}")
        with self._named_errors(f"data of the variable {name!r}"):
            return self._reader.get_tensor(name)

    def check(self) -> None:
        """Read everything once; raise a CheckpointError if something is damaged."""
        for name in sorted(self.shapes):
            try:
                self.read(name)
            except CheckpointError as error:
                # What TensorFlow saves of one part of a variable, such as an optimizer's slot, is no damage.
                if _ONE_PART not in str(error):
                    raise

    @contextmanager
    def _named_errors(self, part: str) -> Iterator[None]:
        # Most failures come as OpError without a subclass, and a data file that ends too early as IndexError.
        try:
            yield
        except tf.errors.NotFoundError as error:
            raise CheckpointError(f"there is no checkpoint {self.prefix}: {error}") from error
        except (tf.errors.OpError, LookupError, RuntimeError, ValueError) as error:
            reason = f"its {part} cannot be read ({error})"
            raise CheckpointError(f"the checkpoint {self.prefix} is damaged: {reason}; use an earlier one") from error


class CheckpointSeries:
    """The checkpoints ``NAME-STEP`` that a training writes into a directory, the oldest of which are deleted.

    Those of former runs count; incomplete ones after a kill are removed. The ``checkpoint`` file lists a checkpoint
    until it is deleted, so that the next run deletes one left by a kill.

    Args:
        saver: knows which variables are saved, and how many checkpoints are kept.
        directory: on this machine; only this process writes to it (``DirectoryClaim``).
        name: the first part of all names.

    Attributes:
        saved_step: the step of the last one; None before the first.
    """

    def __init__(self, saver: tf.train.Saver, directory: str, name: str) -> None:
        self._saver = saver
        self._path = os.path.join(directory, name)
        self.saved_step: int | None = None
        remove_leftovers(directory, name)
        settings = saver.as_saver_def()
        self._most = settings.max_to_keep
        self._secs_to_next_that_stays = settings.keep_checkpoint_every_n_hours * 3600
        self._next_that_stays = time.time() + self._secs_to_next_that_stays
        # Those that count, with the times at which they were saved, the oldest first.
        self._kept = _former_checkpoints(directory, name, self._most) if self._most else []

    def prefix(self, step: int) -> str:
        """Return the prefix of the checkpoint of a step."""
        return f"{self._path}-{step}"

    def save(self, session: tf.Session, step: int) -> str:
        """Save the checkpoint of a step and return its prefix.

        Raises:
            CheckpointError: It could not be written; the message names it.
        """
        saved = save_checkpoint(self._saver, session, self._path, step, write_state=False)
        self.saved_step = step
        try:
            self._keep(saved)
        except OSError as error:
            raise CheckpointError(f"cannot write checkpoint {saved}: {why_not_written(saved, error)}") from error
        return saved

    def _keep(self, newest: str) -> None:
        """Record a checkpoint as the newest one, and delete those above the limit."""
        self._kept = [*(each for each in self._kept if each[0] != newest), (newest, time.time())]
        if not self._most:
            self._kept = self._kept[-1:]
        surplus = self._take_surplus()
        _write_state(newest, [*surplus, *(path for path, _ in self._kept)])
        for path in surplus:
            _remove_checkpoint(path)
        if surplus:
            _write_state(newest, [path for path, _ in self._kept])

    def _take_surplus(self) -> list[str]:
        """Return the oldest checkpoints above the limit, and stop counting them and those that stay for ever."""
        surplus = []
        while self._most and len(self._kept) > self._most:
            path, saved_at = self._kept.pop(0)
            if saved_at > self._next_that_stays:
                self._next_that_stays += self._secs_to_next_that_stays
            else:
                surplus.append(path)
        return surplus


def _write_state(newest: str, paths: list[str]) -> None:
    """Write the ``checkpoint`` file, with relative names so that the directory can be moved."""
    directory, name = os.path.split(newest)
    state = tf.train.generate_checkpoint_state_proto(directory, newest, paths)
    state.model_checkpoint_path = name
    del state.all_model_checkpoint_paths[:], state.all_model_checkpoint_timestamps[:]
    state.all_model_checkpoint_paths.extend(os.path.relpath(path, directory) for path in paths)
    with atomic_write(os.path.join(directory, "checkpoint")) as file:
        file.write(str(state))


def _remove_checkpoint(prefix: str) -> None:
    """Delete a checkpoint, its index first, so that a kill leaves no half of one."""
    files = glob.glob(f"{glob.escape(prefix)}.*")
    for path in sorted(files, key=lambda path: not path.endswith(".index")):
        if _FILE_SUFFIX.search(path):
            os.remove(path)


def save_checkpoint(
    saver: tf.train.Saver, session: tf.Session, path: str, step: int | None = None, *, write_state: bool = True
) -> str:
    """Save one checkpoint without the meta graph, and return its prefix.

    Args:
        saver: knows which variables.
        session: the session; neither it nor its graph need be the default one.
        path: the prefix, to which the step is appended if there is one.
        step: the global step.
        write_state: record it as the newest in the directory's ``checkpoint`` file.

    Raises:
        CheckpointError: It could not be written; the message names it.
    """
    named = path if step is None else f"{path}-{step}"
    try:
        # A session being the default one does not make its graph so, and outside a graph the saver saves nothing.
        with session.graph.as_default():
            prefix: str = saver.save(session, path, step, write_meta_graph=False, write_state=write_state)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise CheckpointError(f"cannot write checkpoint {named}: {reason_of(error)}") from error
    return prefix


def reason_of(error: Exception) -> str:
    """Return the reason of an error, without the place where TensorFlow's operation was made."""
    if not isinstance(error, tf.errors.OpError):
        return str(error)
    _, made_at, reason = str(error.message).rpartition("\nNode: ")
    lines = reason.splitlines()[1 if made_at else 0 :]
    return "\n".join(line for line in lines if not line.lstrip().startswith("[[{{node ")).strip()


def remove_leftovers(directory: str, name: str) -> list[str]:
    """Remove the temporary files, and data without an index, of savers that were killed; return their names, sorted.

    The directory must be claimed, since the files of another process that is saving look the same. Checkpoints are
    called ``NAME-STEP``.
    """
    if not os.path.isdir(directory):
        return []
    names = set(os.listdir(directory))
    one = rf"{re.escape(name)}-\d+"
    files = re.compile(rf"{one}\.(index|data-\d+-of-\d+)\.tempstate\d+|(checkpoint|.+\.meta)\.tmp[0-9a-f]{{32}}")
    shards, data = re.compile(rf"{one}_temp"), re.compile(rf"({one})\.data-\d+-of-\d+")
    removed = []
    for found in sorted(names):
        path, part = os.path.join(directory, found), data.fullmatch(found)
        if files.fullmatch(found) or leftover_of(found) == "checkpoint" or (part and f"{part[1]}.index" not in names):
            os.remove(path)
        elif shards.fullmatch(found):
            shutil.rmtree(path)
        else:
            continue
        removed.append(found)
    if removed:
        logger.info(f"Removed from {directory} what an interrupted save left there: {_some_of(removed)}.")
    return removed


def _is_there(path: str, *, directory: bool = False) -> bool:
    """Tell whether there is a file or directory, or a directory; raise a CheckpointError if TensorFlow cannot look."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        # TensorFlow would wait for it.
        raise CheckpointError(f"{path} is a pipe, a device or the like: expected a regular file")
    try:
        found = tf.io.gfile.stat(path)
    except tf.errors.NotFoundError:
        return False
    except tf.errors.OpError as error:
        raise CheckpointError(f"cannot look for a checkpoint at {path}: {reason_of(error)}") from error
    return bool(found.is_directory) or not directory


def _candidates(checkpoint_dir: str) -> list[str]:
    """Return the prefixes of a directory's checkpoints: the recorded latest one, then the newest first."""
    names = [name.removesuffix(".index") for name in tf.io.gfile.listdir(checkpoint_dir) if name.endswith(".index")]
    prefixes = [os.path.join(checkpoint_dir, name) for name in names]
    prefixes.sort(key=_age_key, reverse=True)
    state = _checkpoint_state(checkpoint_dir)
    if state is None:
        return prefixes
    # A directory that was moved still names its checkpoints by where they were saved.
    named = os.path.join(checkpoint_dir, os.path.basename(state.model_checkpoint_path))
    return [named, *(prefix for prefix in prefixes if prefix != named)]


def _checkpoint_state(checkpoint_dir: str) -> Any:
    """Return the content of a directory's ``checkpoint`` file; None if it is missing or damaged."""
    reason: object = "it is not what a saver writes"
    try:
        state = tf.train.get_checkpoint_state(checkpoint_dir)
    except ValueError as error:
        state, reason = None, error
    if state is None and tf.io.gfile.exists(os.path.join(checkpoint_dir, "checkpoint")):
        logger.warning(f"{os.path.join(checkpoint_dir, 'checkpoint')} is damaged ({reason}): it is not used.")
    return state


def _age_key(prefix: str) -> tuple[int, int, str]:
    """Order checkpoints by their time of writing; files that were copied at once, by the number in their names."""
    number = re.search(r"-(\d+)$", prefix)
    written = tf.io.gfile.stat(prefix + ".index").mtime_nsec
    return written, int(number.group(1)) if number else -1, prefix


def _listing(directory: str, wanted: str = "") -> str:
    """Return a message of the checkpoints in a directory, those of near names first, or of its other files."""
    if not _is_there(directory, directory=True):
        return f"There is no directory {directory} either"
    names = sorted(tf.io.gfile.listdir(directory))
    checkpoints = [name.removesuffix(".index") for name in names if name.endswith(".index")]
    if checkpoints:
        near = get_close_matches(wanted, checkpoints, n=5)
        others = [name for name in checkpoints if name not in near]
        return f"The checkpoints in {directory} are: {_some_of([*near, *others])}"
    return f"The directory {directory} has: {_some_of(names)}" if names else f"The directory {directory} is empty"


def _some_of(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more


def _former_checkpoints(directory: str, name: str, most: int) -> list[tuple[str, float]]:
    """Return the checkpoints of former runs that count, at most ``most`` (0: all), and their times, the oldest first.

    Without a list in the ``checkpoint`` file these are the newest ones: older ones were meant to stay.
    """
    state = _checkpoint_state(directory)
    if state is not None:
        # The file may name those of another directory, which are not this series's to delete.
        paths = [os.path.join(directory, os.path.basename(path)) for path in state.all_model_checkpoint_paths]
        paths = [path for path in dict.fromkeys(paths) if os.path.exists(f"{path}.index")]
    elif os.path.exists(os.path.join(directory, "checkpoint")):
        steps = re.compile(rf"({re.escape(name)}-\d+)\.index")
        found = [match[1] for entry in os.listdir(directory) if (match := steps.fullmatch(entry))]
        paths = sorted((os.path.join(directory, prefix) for prefix in found), key=_age_key)[-most:]
    else:
        return []
    return [(path, os.path.getmtime(f"{path}.index")) for path in paths]
