"""Write checkpoints of an Estimator's training: ``model.ckpt-<step>`` in its directory."""

import os
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError, ConfigError
from tpack.estimator.model_saver import WholeModelSaver
from tpack.estimator.run_config import RunConfig
from tpack.estimator.step_timer import StepTimer
from tpack.utils import logger

_NAME = "model.ckpt"


def add_default_saver(scaffold: Any, config: RunConfig) -> None:
    """Add a saver of all variables to the current graph, unless the model has a saver of its own.

    Args:
        scaffold: the model's, which takes up the saver when it is finalized.
        config: says how many checkpoints are kept.
    """
    if scaffold.saver is None and not tf.get_collection(tf.GraphKeys.SAVERS):
        saver = WholeModelSaver(
            max_to_keep=config.keep_checkpoint_max,
            keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
        )
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)


class CheckpointWriter:
    """Writes a checkpoint when training begins, whenever one is due, and when training ends or is interrupted.

    Those of a former run in the same directory count for how many are kept.

    Args:
        directory: where to.
        config: says when.
        listeners: ``tf.train.CheckpointSaverListener`` objects, told before and after each checkpoint.

    Raises:
        ConfigError: A listener is none.
    """

    def __init__(self, directory: str, config: RunConfig, listeners: Sequence[Any] = ()) -> None:
        for listener in listeners:
            if not isinstance(listener, tf.train.CheckpointSaverListener):
                raise ConfigError(f"saving_listeners must be tf.train.CheckpointSaverListener, got {listener!r}")
        self._directory = directory
        self._listeners = list(listeners)
        self._timer = StepTimer(every_steps=config.save_checkpoints_steps, every_secs=config.save_checkpoints_secs)
        self._is_on = bool(config.save_checkpoints_steps or config.save_checkpoints_secs)
        self._saver: Any = None
        self._saved_step = -1
        self.wants_stop = False

    def build(self) -> None:
        """Let the listeners add to the current graph."""
        for listener in self._listeners:
            listener.begin()

    def begin(self, session: Any, saver: Any, step: int) -> None:
        """Save the first checkpoint.

        Args:
            session: the session.
            saver: the one of the finalized scaffold.
            step: the global step.
        """
        self._saver = saver
        state = tf.train.get_checkpoint_state(self._directory)
        former = [] if state is None else list(state.all_model_checkpoint_paths)
        saver.recover_last_checkpoints([path for path in former if os.path.exists(f"{path}.index")])
        if self._is_on:
            self._save(session, step)

    def after_step(self, session: Any, step: int) -> None:
        """Save if it is time."""
        if self._is_on and self._timer.is_due(step):
            self._save(session, step)

    def end(self, session: Any, step: int) -> None:
        """Save the last step, if it is not saved."""
        if self._is_on:
            if step != self._saved_step:
                self._save(session, step)
            for listener in self._listeners:
                listener.end(session, step)

    def interrupted(self, session: Any, step: int) -> None:
        """Save the last step, if it is not saved. Listeners are not told, who may take their time."""
        if self._is_on and step != self._saved_step:
            self._write(session, step)

    def _save(self, session: Any, step: int) -> None:
        for listener in self._listeners:
            listener.before_save(session, step)
        self._write(session, step)
        # Not any(): all of them are to be told.
        answers = [listener.after_save(session, step) for listener in self._listeners]
        self.wants_stop = self.wants_stop or any(answers)

    def _write(self, session: Any, step: int) -> None:
        path = os.path.join(self._directory, _NAME)
        try:
            saved = self._saver.save(session, path, global_step=step, write_meta_graph=False)
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise CheckpointError(f"cannot write the checkpoint {path}-{step}: {error}") from error
        logger.info(f"Saved the model to {saved}.")
        self._timer.done(step)
        self._saved_step = step
