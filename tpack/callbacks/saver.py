"""Save the variables while training; the functions below `ModelSaver` serve every callback that saves checkpoints."""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS, Callback
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import CallbackError, CheckpointError, ClusterError
from tpack.tfutils.checkpoint import CheckpointReader, CheckpointSeries, reason_of
from tpack.tfutils.checkpoints.async_writer import Background, SavedCopy
from tpack.tfutils.graph_lookup import GLOBAL_STEP_NAME
from tpack.tfutils.train_state import PackedStates, TrainState, pack_states, prune_train_states, workers_state
from tpack.types import Peers
from tpack.utils import logger
from tpack.utils.dir_lock import DirectoryClaim, had_claim
from tpack.utils.fs import why_not_written
from tpack.utils.lazy import LazyModule
from tpack.utils.renames import on_unknown_name
from tpack.utils.serialize import dumps
from tpack.utils.validation import check_arguments, check_count, check_local_path, check_number, is_remote

__getattr__ = on_unknown_name(__name__)

_remote = LazyModule("tpack.utils.remote.directories")
_State: TypeAlias = dict[str, Any] | None
_MOST_BYTES = 1 << 27
"""Limit of a position that a worker sends to the chief; points kept in a buffer can exceed it."""
_LAST_WAIT_SECS = 30.0
"""Timeout for the other workers' positions after an interruption."""
_OF_CHECKPOINTS = re.compile(
    r"checkpoint|.+\.(index|meta|data-\d+-of-\d+|train_state\.json|data_state\.msgpack|best\.json)"
)
"""The names of the files of checkpoints."""


@check_arguments
class ModelSaver(Callback):
    """Save a checkpoint ``model-<global step>`` when triggered, that is after each epoch unless wrapped.

    It is triggered after all other callbacks. An epoch whose end fails, by numbers that are not finite or any other
    error, is not saved, and a run killed before that repeats the end of the epoch. An interruption by a signal saves
    the last steps too. The limit of checkpoints includes those of former runs in the same directory.

    Beside each checkpoint lie a small file with the epoch, the step and the callbacks' state, and another with the
    position in the data, if any. Both are written first, so that every complete checkpoint has them. Several workers
    compare what is saved, and the chief saves the positions of all, so trigger the callback at the same steps in all.
    The graph is written once, before training, as ``graph-<time>.meta``.

    Checkpoints that another training of this process has saved in the same ``checkpoint_dir``, of later steps than that
    at which this one begins, are moved to a directory with the time in its name.

    With ``asynchronous=True`` training waits only while the values are copied to this machine's memory, or while the
    thread still writes the last checkpoint. An error is raised at the next trigger or at the end of training, which
    waits for the thread. A killed process leaves the last complete checkpoint.

    Args:
        max_to_keep: the number of checkpoints to keep; the oldest are deleted. 0 keeps all.
        keep_checkpoint_every_n_hours: a checkpoint this long after the last kept one is never deleted.
        checkpoint_dir: a directory, or a URL that fsspec knows; the logger's directory unless given. No other process
            may write there until training ends.
        var_collections: one or several collection keys of the variables; all global variables unless given.
        asynchronous: write in a thread; the copy takes as much memory as the saved values.

    Raises:
        WrongTypeError: An argument has the wrong type.
        ConfigError: A number is negative.
        CheckpointError: Checkpoints of another training of this process would have to be moved on remote storage.
    """

    _chief_only = False
    saves_training = True

    def __init__(
        self,
        max_to_keep: int = 10,
        keep_checkpoint_every_n_hours: float = 0.5,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        var_collections: str | Sequence[str] | None = None,
        *,
        asynchronous: bool = False,
    ) -> None:
        if var_collections is None:
            var_collections = tf.GraphKeys.GLOBAL_VARIABLES
        self._collections = [var_collections] if isinstance(var_collections, str) else list(var_collections)
        self._options = {
            "max_to_keep": check_count(self, "max_to_keep", max_to_keep, 0),
            "keep_checkpoint_every_n_hours": check_number(
                self, "keep_checkpoint_every_n_hours", keep_checkpoint_every_n_hours, 0
            ),
        }
        self._given_dir = checkpoint_dir
        self._claim: DirectoryClaim
        self._saver: tf.train.Saver
        self._series: CheckpointSeries
        self._asynchronous = asynchronous
        self._copy: SavedCopy | None = None
        self._background = Background("writes checkpoints")
        self._said_waiting = False
        self._said_stateless = False
        self._first_step: int | None = None
        self._saved_step: int | None = None

    def _is_writer(self) -> bool:
        """Return whether this process writes checkpoints."""
        return self.trainer.is_chief

    def _setup_graph(self) -> None:
        if not self._is_writer():
            return
        self._claim = claim_checkpoint_dir(self, self._given_dir)
        # The name scope that TensorFlow's own tools expect.
        with tf.name_scope(None):
            self._saver = make_saver(self, self._collections, **self._options)
        tf.add_to_collection(tf.GraphKeys.SAVERS, self._saver)

    def _before_train(self) -> None:
        self._first_step = self.global_step
        if not self._is_writer():
            return
        keep_apart(self, self._given_dir, self._claim.directory)
        self._series = CheckpointSeries(self._saver, self._claim.directory, "model")
        if self._asynchronous:
            # After the training's session: the first one of a process sets the number of threads of an operation, on
            # which the last bits of products and sums depend.
            self._copy = SavedCopy(self._saver, self.graph)
        self._write_graph()

    def _write_graph(self) -> None:
        path = os.path.join(self._claim.directory, f"graph-{time.strftime('%m%d-%H%M%S')}.meta")
        keys = (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.TRAINABLE_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES)
        try:
            with self.graph.as_default():
                self._saver.export_meta_graph(path, collection_list=list(keys))
        except (OSError, tf.errors.OpError) as error:
            raise CheckpointError(f"cannot write the graph to {path}: {reason_of(error)}") from error

    def _trigger(self) -> None:
        step = self.global_step
        self.trainer.agree_to_save()
        remembered = self._remembered()
        if self._is_writer():
            self._write(step, remembered)
        else:
            self._data_states()
        self._saved_step = step

    def _after_train(self) -> None:
        def save_last() -> None:
            # Without a step there is nothing to save, and some data have no position before their beginning.
            if self.trainer.interrupted and self.global_step not in (self._first_step, self._saved_step):
                self._trigger()

        # Each part runs, whatever error the ones before end with.
        with contextlib.ExitStack() as stack:
            if self._is_writer():
                stack.callback(self._claim.release)
                if self._copy is not None:
                    stack.callback(self._copy.close)
                stack.callback(self._background.wait)
            stack.callback(save_last)
            self._background.wait()

    def _remembered(self) -> dict[str, Any]:
        """Return the states of the callbacks, for those that write."""
        return self.trainer.prepare_save() if self.trainer.is_chief else {}

    def _write(self, step: int, remembered: dict[str, Any]) -> None:
        data_states = self._data_states()
        try:
            state = TrainState(*self._position(), step, remembered, self.trainer.steps_per_epoch)
            states = pack_states(state, data_states)
        except TypeError as error:
            raise self._unwritten(step, error) from error
        copy = self._copy
        if copy is None:
            self._complete(step, states, self.trainer.sess)
            return
        if self._background.is_busy and not self._said_waiting:
            logger.info("Training waits until the last checkpoint is written: the next one is due already.")
            self._said_waiting = True
        self._background.wait()
        copy.copy_from(self.trainer.sess)
        self._background.begin(lambda: self._complete(step, states, copy))

    def _complete(self, step: int, states: PackedStates, session: tf.Session) -> None:
        """Write all files of a checkpoint, the variables last; in the thread if asynchronous."""
        prefix = self._series.prefix(step)
        try:
            states.write(prefix)
            self._series.save(session, step)
            prune_train_states(self._claim.directory)
        except OSError as error:
            raise self._unwritten(step, why_not_written(prefix, error)) from error
        self._report(prefix)

    def _report(self, prefix: str) -> None:
        logger.info(f"Model saved to {prefix}.")

    def _unwritten(self, step: int, why: object) -> CheckpointError:
        prefix = self._series.prefix(step)
        return CheckpointError(f"cannot write the training state of checkpoint {prefix}: {why}")

    def _data_states(self) -> _State:
        """Return the position in the data, of each worker if there are several; None if there is none."""
        source, state, reason = self.trainer.input_source, None, ""
        try:
            state = None if source is None else source.data_state()
        except StatelessError as error:
            reason = str(error)
        peers = self.trainer.peers
        if peers is not None and peers.size > 1:
            size_bytes = 0 if state is None else len(dumps(state))
            if size_bytes > _MOST_BYTES:
                state, reason = None, f"it takes {size_bytes >> 20} MiB, more than {_MOST_BYTES >> 20}"
            state, reason = self._state_of_all(peers, state, reason)
        if reason and not self._said_stateless:
            logger.info(f"Checkpoints do not hold a position in the data, which begin anew on a restart: {reason}")
            self._said_stateless = True
        return state

    def _state_of_all(self, peers: Peers, state: _State, reason: str) -> tuple[_State, str]:
        """Return the positions of all workers as one; or None and the reason."""
        try:
            # A worker that was not interrupted like the others does not save.
            limit = _LAST_WAIT_SECS if self.trainer.interrupted else LONG_WAIT_SECS
            found = peers.gather("the position in the data", [self.global_step, state, reason], timeout_secs=limit)
        except ClusterError as error:
            if not self.trainer.interrupted:
                raise
            return None, f"not all workers could tell theirs: {error}"
        steps, states, reasons = zip(*found, strict=True)
        # Workers without a common pace save at different steps, too.
        if self.trainer.interrupted and len(set(steps)) > 1:
            return None, f"the workers are at different steps: {', '.join(map(str, steps))}"
        lacking = [rank for rank, each in enumerate(states) if each is None]
        if lacking:
            first = lacking[0]
            return None, reasons[first] and f"worker {first}: {reasons[first]}"
        return workers_state(states), ""

    def _position(self) -> tuple[int, int]:
        """Return the epoch in which a resumed run begins and the number of its finished steps."""
        if self.epoch_num < self.trainer.starting_epoch:
            # Before the first epoch.
            return self.trainer.starting_epoch, self.trainer.loop.starting_step
        return (self.epoch_num + 1, 0) if self.trainer.loop.is_epoch_over else (self.epoch_num, self.local_step)


def claim_checkpoint_dir(callback: Callback, directory: str | os.PathLike[str] | None) -> DirectoryClaim:
    """Claim the checkpoint directory, by default the logger's; it is made if missing.

    Raises:
        CallbackError: there is none.
        ConfigError: it cannot be used or written, or another process trains in it.
        RemoteError: it is on remote storage that cannot be read or written.
    """
    if directory is None:
        directory = logger.get_logger_dir()
    if directory is None:
        raise CallbackError(
            f"{callback} got checkpoint_dir=None: expected a directory; use log_dir of TrainConfig or fit, or "
            "logger.set_logger_dir"
        )
    if is_remote(directory):
        return DirectoryClaim(_remote.open_directory(str(directory)).path)
    return DirectoryClaim(check_local_path(callback, "checkpoint_dir", directory))


def keep_apart(callback: Callback, given: str | os.PathLike[str] | None, directory: str) -> None:
    """Move checkpoints of another training of this process aside, if this one would overwrite them.

    These are of later steps than that at which this one begins. What is in the log directory is there by request.

    Args:
        callback: the caller, before its first step.
        given: its argument ``checkpoint_dir``.
        directory: the claimed directory.

    Raises:
        CheckpointError: They are on remote storage.
    """
    log_dir = logger.get_logger_dir()
    if given is None or (log_dir is not None and _is_inside(directory, log_dir)):
        return
    remote = _remote.open_directory(str(given)) if is_remote(given) else None
    is_anothers = had_claim(directory) if remote is None else remote.has_trained
    last = _last_step(directory) if is_anothers else -1
    if last <= callback.global_step:
        return
    found = (
        f"{callback} got checkpoint_dir={str(given)!r}, where another training of this process has saved step {last:g}"
    )
    if remote is not None:
        raise CheckpointError(f"{found}, later than step {callback.global_step}: expected another directory")
    aside = logger.timestamped(os.path.abspath(directory))
    os.makedirs(aside)
    for name in os.listdir(directory):
        if _OF_CHECKPOINTS.fullmatch(name):
            os.rename(os.path.join(directory, name), os.path.join(aside, name))
    logger.warning(f"{found}: its checkpoints are in {aside} now.")


def _is_inside(directory: str, other: str) -> bool:
    path, around = os.path.realpath(directory), os.path.realpath(other)
    return os.path.commonpath([path, around]) == around


def _last_step(directory: str) -> float:
    """Return the last step of the checkpoints in a directory, infinity for one that cannot be read; -1 for none."""
    steps = [-1.0]
    for name in os.listdir(directory):
        prefix, is_index = os.path.join(directory, name.removesuffix(".index")), name.endswith(".index")
        numbered = re.search(r"-(\d+)\.index", name)
        if numbered:
            steps.append(float(numbered[1]))
        elif is_index:
            try:
                steps.append(float(CheckpointReader(prefix).read(GLOBAL_STEP_NAME)))
            except CheckpointError:
                steps.append(math.inf)
    return max(steps)


def make_saver(callback: Callback, collections: Sequence[str], **options: Any) -> tf.train.Saver:
    """Return a `tf.train.Saver` of all variables in the collections.

    Args:
        callback: the caller, for the error.
        collections: keys of graph collections.
        **options: further arguments of the saver.

    Raises:
        CallbackError: the collections hold no variable.
    """
    variables = list({id(v): v for key in collections for v in tf.get_collection(key)}.values())
    if not variables:
        raise CallbackError(f"{callback} got no variables in {', '.join(collections)}: expected at least one")
    return tf.train.Saver(variables, save_relative_paths=True, **options)
