"""Hooks for an Estimator's training: one that evaluates in between, and one that stops at a step."""

import os
import tempfile
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.estimator.estimator import Estimator
from tpack.estimator.inputs import InputFn
from tpack.utils.validation import check_arguments, check_count, check_instance


@check_arguments
class InMemoryEvaluatorHook(tf.train.SessionRunHook):
    """Evaluates the model that is being trained, without waiting for a checkpoint of the training.

    It does so after the first step, after every so many, and at the end.

    Args:
        estimator: the model that is trained.
        input_fn: as for `Estimator.evaluate`.
        steps: how many batches; None for all.
        hooks: session hooks of the evaluation.
        name: of the evaluation.
        every_n_iter: steps between two evaluations.

    Raises:
        ConfigError: A number is not positive, or an argument of another kind.

    Source:
        The class of this name in ``tf.estimator.experimental`` of TensorFlow 1.15, which passes values from session to
        session; here they go through a file in a temporary directory.
    """

    def __init__(
        self,
        estimator: Estimator,
        input_fn: InputFn,
        steps: int | None = None,
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        name: str | None = None,
        every_n_iter: int = 100,
    ) -> None:
        self._estimator = check_instance(self, "estimator", estimator, Estimator)
        self._input_fn = input_fn
        self._steps = steps
        self._hooks = hooks
        self._name = name
        self._every = check_count(self, "every_n_iter", every_n_iter)
        self._num_steps = 0
        self._saver: tf.train.Saver = None

    def begin(self) -> None:
        """Get ready to pass on the values of variables."""
        self._saver = tf.train.Saver(max_to_keep=1)

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Evaluate, if it is time."""
        if self._num_steps % self._every == 0:
            self._evaluate(run_context.session)
        self._num_steps += 1

    def end(self, session: tf.Session) -> None:
        """Evaluate the model as it is in the end."""
        self._evaluate(session)

    def _evaluate(self, session: tf.Session) -> None:
        with tempfile.TemporaryDirectory(prefix="tpack-in-memory-") as directory:
            path = os.path.join(directory, "model.ckpt")
            self._saver.save(session, path, write_meta_graph=False, write_state=False)
            self._estimator.evaluate(self._input_fn, self._steps, self._hooks, path, self._name)


@check_arguments
def make_stop_at_checkpoint_step_hook(
    estimator: Estimator, last_step: int, wait_after_file_check_secs: float = 30
) -> tf.train.SessionRunHook:
    """Return a hook that ends training at a global step.

    Args:
        estimator: the model that is trained.
        last_step: the global step.
        wait_after_file_check_secs: not used: it is for the workers of a cluster.
    """
    check_instance("make_stop_at_checkpoint_step_hook", "estimator", estimator, Estimator)
    return tf.train.StopAtStepHook(last_step=check_count("make_stop_at_checkpoint_step_hook", "last_step", last_step))
