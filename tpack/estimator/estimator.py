"""Train, evaluate, use and export a model written as a model_fn.

Each call builds its own graph and restores the newest checkpoint in the model's directory, the only state.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError, ConfigError
from tpack.estimator import exporters, session
from tpack.estimator.building import (
    BuiltModel,
    ModelFn,
    ModelParts,
    WarmStartSettings,
    build_distributed_evaluation,
    build_distributed_training,
    build_model,
    check_model_fn,
    make_warm_start_settings,
    warm_start,
)
from tpack.estimator.distributed_run import ClusterRun, join_cluster
from tpack.estimator.inputs import GivenInput, Input, Inputs, ServingInputReceiver, call_input_fn, warn_if_endless
from tpack.estimator.run_config import RunConfig, number_of_steps
from tpack.estimator.spec import ModeKeys, checked_hooks
from tpack.estimator.training import TrainLimits, train_model
from tpack.tfutils.checkpoint import CheckpointReader, latest_checkpoint, resolve_checkpoint
from tpack.tfutils.graph_lookup import GLOBAL_STEP_NAME
from tpack.utils import logger
from tpack.utils.dir_lock import DirectoryClaim
from tpack.utils.launch_env import check_only_process
from tpack.utils.validation import check_arguments, check_local_path, check_path, check_text, mismatch


@check_arguments
class Estimator:
    """A model with a directory.

    Args:
        model_fn: takes ``features`` and any of ``labels``, ``mode``, ``params`` and ``config``; returns an
            `EstimatorSpec`. It is called inside a tower, so tpack's layers work in it.
        model_dir: the directory of checkpoints and summaries; by default that of the config, or a temporary one.
        config: a `RunConfig`; None for the default one.
        params: passed to the model_fn and to input_fns; by default an empty dict.
        warm_start_from: a checkpoint, or `WarmStartSettings`, as the start of training if ``model_dir`` has no
            checkpoint.

    Raises:
        ConfigError: The model_fn does not take the right arguments, the config names another directory, or an argument
            is wrong.

    Example:
        estimator = Estimator(model_fn, model_dir="run", params={"learning_rate": 0.1})
        estimator.train(input_fn, steps=1000)
        print(estimator.evaluate(eval_input_fn))

    Source:
        ``tf.estimator.Estimator`` of TensorFlow 1. There, a model without a checkpoint is evaluated with its initial
        values, and an input may be empty, both errors here; an export returns bytes.
    """

    def __init__(
        self,
        model_fn: ModelFn,
        model_dir: str | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: str | WarmStartSettings | None = None,
    ) -> None:
        check_model_fn(model_fn, params)
        config = RunConfig() if config is None else config
        if None not in (model_dir, config.model_dir) and model_dir != config.model_dir:
            raise ConfigError(mismatch(self, "model_dir", model_dir, f"{config.model_dir!r} of the config, or None"))
        self._warm_start = make_warm_start_settings(warm_start_from)
        directory = config.model_dir if model_dir is None else model_dir
        if directory is None:
            directory = tempfile.mkdtemp(prefix="tpack-estimator-")
            logger.warning(f"The Estimator uses a temporary model_dir: {directory}")
        directory = check_local_path("Estimator", "model_dir", directory)
        params = {} if params is None else params
        self._parts = ModelParts(model_fn, params, config.replace(model_dir=directory), directory)

    @property
    def model_dir(self) -> str:
        """The directory of the model."""
        return self._parts.model_dir

    @property
    def config(self) -> RunConfig:
        """The options, with the directory of the model."""
        return self._parts.config

    @property
    def params(self) -> Any:
        """The parameters of the model, not a copy."""
        return self._parts.params

    @property
    def model_fn(self) -> ModelFn:
        """The model."""
        return self._parts.model_fn

    def train(
        self,
        input_fn: Input,
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[tf.train.CheckpointSaverListener] | None = None,
        *,
        batch_size: int | None = None,
    ) -> "Estimator":
        """Train from the newest checkpoint in the directory, and return the Estimator.

        In a cluster, every worker calls it. Only the chief restores, saves and writes summaries, in a directory
        that the others need not see.

        Args:
            input_fn: returns a Dataset or tensors; takes any of ``mode``, ``params`` and ``config``. Or data, or a
                function that returns them: arrays such as ``(x, y)`` or ``({"name": x}, y)``, a list of data points, a
                generator function, a DataFlow, a ``tf.data.Dataset``, a data set or loader of another library. Data are
                repeated if ``steps`` or ``max_steps`` is given, and else read once; a Dataset from a function is never
                repeated.
            hooks: session hooks.
            steps: the number of steps; without it and ``max_steps``, until the data end.
            max_steps: the global step to end at; no training if the checkpoint has reached it.
            saving_listeners: ``tf.train.CheckpointSaverListener`` objects.
            batch_size: examples per step, over all towers, for data of examples; None for data of batches.

        Raises:
            ConfigError: Both numbers are given, one is not positive, or an argument is wrong. Another process trains in
                the directory, or it cannot be written. Or this is one of several processes without a way to train
                together, or unknown to the config (`check_only_process`).
            ClusterError: Another process was lost, or is to train something else.
            CheckpointError: The checkpoint does not fit the model, or no checkpoint loads.
            NumericsError: The loss is NaN.
            KeyboardInterrupt: Raised by the user, after the finished steps are saved.
        """
        if steps is not None and max_steps is not None:
            raise ConfigError(f"train got steps={steps} and max_steps={max_steps}: expected one of them")
        steps, max_steps = (
            number_of_steps("train", name, value) for name, value in (("steps", steps), ("max_steps", max_steps))
        )
        hooks = checked_hooks("hooks", hooks)
        given = GivenInput(input_fn, batch_size, is_repeated=(steps, max_steps) != (None, None))
        if self.config.place.task is None:
            check_only_process("Estimator.train")
        with join_cluster(self.config) as cluster, ExitStack() as claims:
            if cluster is None or cluster.is_chief:
                claims.enter_context(DirectoryClaim(self.model_dir))
            limits = self._limits(steps, max_steps, cluster)
            if limits is not None:
                self._train(given, hooks, limits, saving_listeners or ())
        return self

    def _limits(self, steps: int | None, max_steps: int | None, cluster: ClusterRun | None) -> TrainLimits | None:
        """Return the chief's range of steps to train; None if it is empty."""
        is_chief = cluster is None or cluster.is_chief
        checkpoint = self.latest_checkpoint() if is_chief else None
        start = 0 if checkpoint is None else int(CheckpointReader(checkpoint).read(GLOBAL_STEP_NAME))
        if cluster is not None:
            cluster.agree({"steps": steps, "max_steps": max_steps})
            start = cluster.follow_chief("where training begins", start)
        last_step = start + steps if steps is not None else max_steps
        if last_step is not None and start >= last_step:
            logger.info(f"Nothing to train: the model is at global step {start}, and max_steps is {max_steps}.")
            return None
        return TrainLimits(last_step, checkpoint, cluster)

    def _train(
        self,
        given: GivenInput,
        hooks: Sequence[tf.train.SessionRunHook],
        limits: TrainLimits,
        listeners: Sequence[tf.train.CheckpointSaverListener],
    ) -> None:
        """Train in the claimed directory."""
        cluster = limits.cluster
        with tf.Graph().as_default():
            with nullcontext() if cluster is None else cluster.building():
                model = self._build(given, ModeKeys.TRAIN)
            if limits.writes and limits.checkpoint is None and self._warm_start is not None:
                warm_start(self._warm_start)
            train_model(self._parts, model, limits, hooks, listeners)

    def evaluate(
        self,
        input_fn: Input,
        steps: int | None = None,
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
        *,
        batch_size: int | None = None,
    ) -> dict[str, Any]:
        """Evaluate a checkpoint, and write the results for TensorBoard.

        Args:
            input_fn: as for `train`; data are read once, in order.
            steps: the number of batches; None for all.
            hooks: session hooks.
            checkpoint_path: None for the newest one in the directory.
            name: the suffix of ``eval_<name>``, the results in the directory; by default ``eval``.
            batch_size: as for `train`.

        Returns:
            The value of each metric, the mean ``loss`` of the batches and the ``global_step``.

        Raises:
            CheckpointError: There is no checkpoint, or it does not fit the model.
            DataExhaustedError: The input is empty.
            ConfigError: ``steps`` is not positive, or an argument is wrong.
        """
        steps = number_of_steps("evaluate", "steps", steps)
        hooks = checked_hooks("hooks", hooks)
        given = GivenInput(input_fn, batch_size)
        directory = self.eval_dir(name)
        checkpoint = self._existing_checkpoint(checkpoint_path)
        with tf.Graph().as_default():
            model = self._build(given, ModeKeys.EVAL)
            if steps is None:
                warn_if_endless(model.inputs, "the evaluation")
            results = session.evaluate_model(self._parts, model, checkpoint, steps, hooks)
        session.report(directory, results)
        return results

    def predict(
        self,
        input_fn: Input,
        predict_keys: str | Iterable[str] | None = None,
        hooks: Sequence[tf.train.SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
        *,
        batch_size: int | None = None,
    ) -> Iterator[Any]:
        """Yield the model's predictions for all of an input, lazily.

        Args:
            input_fn: as for `evaluate`; labels are ignored.
            predict_keys: a name or names of predictions to return; None for all.
            hooks: session hooks.
            checkpoint_path: None for the newest one in the directory.
            yield_single_examples: yield single examples instead of batches.
            batch_size: as for `train`.

        Raises:
            CheckpointError: There is no checkpoint, or it does not fit the model.
            ConfigError: An unknown prediction, or predictions with different numbers of rows.
        """
        hooks = checked_hooks("hooks", hooks)
        given = GivenInput(input_fn, batch_size)
        checkpoint = self._existing_checkpoint(checkpoint_path)
        with tf.Graph().as_default():
            model = self._build(given, ModeKeys.PREDICT)
            warn_if_endless(model.inputs, "prediction")
            wanted = session.chosen_predictions(model.spec.predictions, predict_keys)
        for values in session.predict_model(self._parts, model, checkpoint, wanted, hooks):
            if yield_single_examples:
                yield from session.each_example(values)
            else:
                yield values

    def export_saved_model(
        self,
        export_dir_base: str | bytes,
        serving_input_receiver_fn: Callable[[], ServingInputReceiver],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> str:
        """Write the model for prediction as a SavedModel, and return the path of its directory.

        Args:
            export_dir_base: the parent of the new directory, which is named by the time; bytes as well, as TensorFlow 1
                returned such paths.
            serving_input_receiver_fn: a function without arguments that returns a `ServingInputReceiver`.
            assets_extra: path inside ``assets.extra`` to the file to copy there.
            as_text: write the graph as text.
            checkpoint_path: None for the newest one in the directory.

        Raises:
            CheckpointError: There is no checkpoint, or it does not fit the model.
            ConfigError: The function returns another object, or the model has no output that can be served.
        """
        checkpoint = self._existing_checkpoint(checkpoint_path)
        base = os.fsdecode(export_dir_base) if isinstance(export_dir_base, bytes) else export_dir_base
        path = exporters.new_export_dir(check_local_path("export_saved_model", "export_dir_base", base))
        with tf.Graph().as_default():
            receiver = exporters.call_receiver_fn(serving_input_receiver_fn)
            model = build_model(self._parts, ModeKeys.PREDICT, lambda: Inputs(receiver.features, None))
            target = exporters.ExportTarget(path, assets_extra, as_text)
            exporters.export_model(self._parts, model, receiver, checkpoint, target)
        return path

    def export_savedmodel(self, *args: Any, strip_default_attrs: bool = True, **kwargs: Any) -> str:
        """Call `export_saved_model`, of which this is the older name; default attributes are always stripped."""
        return self.export_saved_model(*args, **kwargs)

    def latest_checkpoint(self) -> str | None:
        """Return the prefix of the newest valid checkpoint in the directory, or None."""
        return latest_checkpoint(self.model_dir)

    def eval_dir(self, name: str | None = None) -> str:
        """Return the directory of an evaluation's results."""
        if name is not None:
            check_text(self, "name", name)
        return session.evaluation_dir(self.model_dir, name)

    def get_variable_names(self) -> list[str]:
        """Return the names of the variables in the newest checkpoint; raise a CheckpointError if there is none."""
        return sorted(CheckpointReader(self._existing_checkpoint(None)).shapes)

    def get_variable_value(self, name: str) -> Any:
        """Return the value of a variable in the newest checkpoint.

        Raises:
            CheckpointError: There is no checkpoint, or it lacks the variable.
        """
        name = check_text(self, "name", name).removesuffix(":0")
        return CheckpointReader(self._existing_checkpoint(None)).read(name)

    def _build(self, given: GivenInput, mode: str) -> BuiltModel:
        """Build input and model into the current graph, under the config's strategy for the mode if there is one."""
        parts, config = self._parts, self.config
        if mode == ModeKeys.TRAIN and config.train_distribute is not None:
            return build_distributed_training(parts, given, config.train_distribute)
        if mode == ModeKeys.EVAL and config.eval_distribute is not None:
            return build_distributed_evaluation(parts, given, config.eval_distribute)
        return build_model(parts, mode, lambda: call_input_fn(given, mode, params=parts.params, config=config))

    def _existing_checkpoint(self, path: str | None) -> str:
        if path is not None:
            path = check_path(self, "checkpoint_path", path)
        prefix = self.latest_checkpoint() if path is None else resolve_checkpoint(path)
        if prefix is None:
            raise CheckpointError(f"{self.model_dir} has no checkpoint: expected a trained model")
        return prefix
