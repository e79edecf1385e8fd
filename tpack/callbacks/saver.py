"""Save the variables while training, so that it can be resumed and the model used.

Below `ModelSaver` stands what every callback that saves checkpoints needs: where to, and which variables.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS, Callback
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import CallbackError, CheckpointError, ClusterError
from tpack.tfutils.checkpoint import CheckpointSeries, reason_of
from tpack.tfutils.checkpoints.async_writer import Background, SavedCopy
from tpack.tfutils.train_state import (
    PackedStates,
    TrainState,
    pack_states,
    prune_train_states,
    workers_state,
)
from tpack.types import Peers
from tpack.utils import logger
from tpack.utils.dir_lock import DirectoryClaim
from tpack.utils.fs import why_not_written
from tpack.utils.lazy import LazyModule
from tpack.utils.renames import on_unknown_name
from tpack.utils.serialize import dumps
from tpack.utils.validation import check_arguments, check_count, check_local_path, check_number, is_remote

__getattr__ = on_unknown_name(__name__)

_remote = LazyModule("tpack.utils.remote.directories")
_State: TypeAlias = dict[str, Any] | None
_MOST_BYTES = 1 << 27
"""A worker that keeps more points back than that, in a buffer for example, does not send them to the chief."""
_LAST_WAIT_SECS = 30.0
"""How long one that is interrupted waits for the others to tell where they are in the data."""


@check_arguments
class ModelSaver(Callback):
    """Save a checkpoint ``model-<global step>`` when triggered, that is after each epoch unless wrapped.

    It is triggered after all other callbacks, wherever it stands in the list. An epoch whose end fails, because its
    numbers are not finite or for any other reason, is not saved, and a run that is killed before its epoch is saved
    does the end of that epoch again.

    Beside each checkpoint lies a small file with the epoch, the step and what callbacks have to remember in it, and
    another with the position in the data if they have one. Both are written first, so that every complete checkpoint
    knows where training was. When training is interrupted by a signal, the last steps are saved too. The limit of
    checkpoints holds over restarts: those of a former run in the same directory count.

    Where several workers train, the chief saves, and the position in the data is that of each: all workers take part,
    so the callback is to be triggered at the same steps in all.

    The graph itself is written once, before training, as ``graph-<time>.meta``.

    With ``asynchronous=True`` training waits until the values are copied to the memory of this machine, and a thread
    writes the same files while it goes on. One checkpoint is written at a time: if the next is due earlier, training
    waits. An error comes at the next trigger, or at the end of training, which waits for what is being written. A
    process that is killed has the last checkpoint that was complete.

    Args:
        max_to_keep: how many checkpoints to keep; the oldest are deleted. 0 keeps all.
        keep_checkpoint_every_n_hours: a checkpoint that comes this long after the last one kept is never deleted.
        checkpoint_dir: where to: a directory, or a URL that fsspec knows; the logger's directory unless given. No other
            process may write there until training ends.
        var_collections: which variables: the key of a collection or several; all global variables unless given.
        asynchronous: write while training goes on; the copy takes as much memory as what is saved.

    Raises:
        WrongTypeError: An argument is no such thing.
        ConfigError: A number is negative.
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

    def _setup_graph(self) -> None:
        if not self.trainer.is_chief:
            return
        self._claim = claim_checkpoint_dir(self, self._given_dir)
        # The saver's ops stay in the name scope that TensorFlow's own tools expect.
        with tf.name_scope(None):
            self._saver = make_saver(self, self._collections, **self._options)
        tf.add_to_collection(tf.GraphKeys.SAVERS, self._saver)
        self._series = CheckpointSeries(self._saver, self._claim.directory, "model")
        if self._asynchronous:
            self._copy = SavedCopy(self._saver, self.graph)

    def _before_train(self) -> None:
        self._first_step = self.global_step
        if self.trainer.is_chief:
            self._write_meta_graph()

    def _write_meta_graph(self) -> None:
        path = os.path.join(self._claim.directory, f"graph-{time.strftime('%m%d-%H%M%S')}.meta")
        keys = (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.TRAINABLE_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES)
        try:
            with self.graph.as_default():
                self._saver.export_meta_graph(path, collection_list=list(keys))
        except (OSError, tf.errors.OpError) as error:
            raise CheckpointError(f"cannot write the graph to {path}: {reason_of(error)}") from error

    def _trigger(self) -> None:
        self._save()

    def _after_train(self) -> None:
        try:
            # What was not written before is no reason to lose what was trained since.
            self._background.wait()
        finally:
            try:
                self._save_what_was_interrupted()
            finally:
                self._finish_writing()

    def _save_what_was_interrupted(self) -> None:
        # Without a step there is nothing to save; and some data only have a position when they have begun.
        if self.trainer.interrupted and self.global_step not in (self._first_step, self._saved_step):
            self._save()

    def _finish_writing(self) -> None:
        if not self.trainer.is_chief:
            return
        try:
            self._background.wait()
        finally:
            if self._copy is not None:
                self._copy.close()
            self._claim.release()

    def _save(self) -> None:
        step = self.global_step
        if self.trainer.is_chief:
            self._write(step)
        else:
            self._data_states()
        self._saved_step = step

    def _write(self, step: int) -> None:
        remembered = self.trainer.prepare_save()
        states = self._packed_states(step, remembered)
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

    def _packed_states(self, step: int, remembered: dict[str, Any]) -> PackedStates:
        data_states = self._data_states()
        try:
            state = TrainState(*self._position(), step, remembered, self.trainer.steps_per_epoch)
            return pack_states(state, data_states)
        except TypeError as error:
            raise self._unwritten(step, error) from error

    def _complete(self, step: int, states: PackedStates, session: tf.Session) -> None:
        """Write all that belongs to a checkpoint, the variables last; in a thread where training goes on."""
        prefix = self._series.prefix(step)
        try:
            states.write(prefix)
            self._series.save(session, step)
            prune_train_states(self._claim.directory)
        except OSError as error:
            raise self._unwritten(step, why_not_written(prefix, error)) from error
        logger.info(f"Model saved to {prefix}.")

    def _unwritten(self, step: int, why: object) -> CheckpointError:
        prefix = self._series.prefix(step)
        return CheckpointError(f"cannot write the training state of checkpoint {prefix}: {why}")

    def _data_states(self) -> _State:
        """Return the position in the data, that of each worker if there are several; None if there is none."""
        state, reason = self._data_state()
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

    def _data_state(self) -> tuple[_State, str]:
        """Return the position in the data of this process; None if there is none, and why not if that is to be told."""
        source = self.trainer.input_source
        try:
            return None if source is None else source.data_state(), ""
        except StatelessError as error:
            return None, str(error)

    def _state_of_all(
        self, peers: Peers, state: dict[str, Any] | None, reason: str
    ) -> tuple[dict[str, Any] | None, str]:
        """Return the positions of all workers as one; None, and why, if one has none or was interrupted elsewhere."""
        try:
            # One that was not interrupted as the others were does not come.
            limit = _LAST_WAIT_SECS if self.trainer.interrupted else LONG_WAIT_SECS
            told = peers.gather("the position in the data", [self.global_step, state, reason], timeout_secs=limit)
        except ClusterError as error:
            if not self.trainer.interrupted:
                raise
            return None, f"not all workers could tell theirs: {error}"
        steps, states, reasons = zip(*told, strict=True)
        # Those that each go at their own pace save at different steps, too.
        if self.trainer.interrupted and len(set(steps)) > 1:
            return None, f"the workers are at different steps: {', '.join(map(str, steps))}"
        lacking = [rank for rank, each in enumerate(states) if each is None]
        if lacking:
            first = lacking[0]
            return None, reasons[first] and f"worker {first}: {reasons[first]}"
        return workers_state(states), ""

    def _position(self) -> tuple[int, int]:
        """Return the epoch in which a run that resumes begins, and how many of its steps are finished."""
        if self.epoch_num < self.trainer.starting_epoch:
            # Before the first epoch training stands where it is going to start.
            return self.trainer.starting_epoch, self.trainer.loop.starting_step
        return (self.epoch_num + 1, 0) if self.trainer.loop.is_epoch_over else (self.epoch_num, self.local_step)


def claim_checkpoint_dir(callback: Callback, directory: str | os.PathLike[str] | None) -> DirectoryClaim:
    """Claim the directory for checkpoints, the logger's unless given; it is made if it is not there.

    Raises:
        CallbackError: there is none.
        ConfigError: it cannot be used or written, or another process trains in it.
        RemoteError: it is on remote storage, which cannot be read or written.
    """
    if directory is None:
        directory = logger.get_logger_dir()
    if directory is None:
        raise CallbackError(
            f"{callback} wants a checkpoint_dir, or a directory of the logger: give log_dir to TrainConfig or fit, or "
            "call logger.set_logger_dir"
        )
    if is_remote(directory):
        return DirectoryClaim(_remote.open_directory(str(directory)).path)
    return DirectoryClaim(check_local_path(callback, "checkpoint_dir", directory))


def make_saver(callback: Callback, collections: Sequence[str], **options: Any) -> tf.train.Saver:
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
