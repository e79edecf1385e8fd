"""The session of an Estimator's model: opened with hooks, variables and input ready, and closed in order.

Evaluation and prediction run in it.

Its steps are those of a `HookedSession`, which runs the fetches of all hooks as one callable.
"""

import itertools
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError, ConfigError, DataExhaustedError, DataPointError
from tpack.estimator.building import BuiltModel, ModelParts
from tpack.estimator.distributed_run import ClusterRun
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import ODD_BATCH, Tensors, operation_of
from tpack.estimator.variable_fetches import SplitPlan, adopt
from tpack.input_source.dataset import StreamElements
from tpack.step.hooked_session import HookAdapter, HookedSession
from tpack.tfutils.checkpoint import CheckpointReader
from tpack.tfutils.determinism import order_sums
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.tfutils.summary import create_scalar_summary, event_writer
from tpack.types import Fetches
from tpack.utils import logger
from tpack.utils.validation import check_instances

_STOP_GRACE_SECS = 30
"""The time limit for queue runners to end after the last step."""


@dataclass(frozen=True)
class SessionPlan:
    """The parameters of a session.

    Attributes:
        scaffold: the scaffold of the graph.
        checkpoint: the prefix of the checkpoint to restore; None for initial values.
        session_config: None for tpack's default.
        input_initializer: opens the dataset; None without one.
        cluster: the cooperation of several processes; None for a single process.
        elements: the reader of data in Python, or None.
    """

    scaffold: tf.train.Scaffold
    checkpoint: str | None
    session_config: tf.ConfigProto | None
    input_initializer: tf.Operation | None = None
    cluster: ClusterRun | None = None
    elements: StreamElements | None = None


class QueueCoordinator(tf.train.Coordinator):
    """A coordinator that knows whether threads run beside the steps, such as queue runners.

    Attributes:
        has_threads: whether there are any.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_threads = False

    def register_thread(self, thread: threading.Thread) -> None:
        """Register a thread that must end with the session."""
        self.has_threads = True
        super().register_thread(thread)


class _ModelSession(HookedSession):
    """A session that reads variables after their updates, and raises a DataPointError for a batch not to be split."""

    def run(self, fetches: Fetches, *args: Any, **kwargs: Any) -> Any:
        """Run a step, as `HookedSession` does; raise a DataPointError for an odd batch."""
        try:
            return super().run(fetches, *args, **kwargs)
        except tf.errors.InvalidArgumentError as error:
            found = re.search(rf"{ODD_BATCH}[^\]\n]*", error.message)
            if found is None:
                raise
            raise DataPointError(found.group()) from error

    def _new_plan(self, everything: list[Any], fed: list[tf.Tensor], timeout_in_ms: int) -> SplitPlan:
        return SplitPlan(self.session, everything, fed, timeout_in_ms=timeout_in_ms)


@contextmanager
def model_session(
    graph: tf.Graph, plan: SessionPlan, hooks: Sequence[tf.train.SessionRunHook]
) -> Iterator[HookedSession]:
    """Open a session on a graph for a block, and finalize the graph.

    Inside the block neither the graph nor the session is the default. After a block without an error, hooks end.

    Args:
        graph: the complete graph.
        plan: the parameters.
        hooks: session hooks, called in this order.

    Raises:
        CheckpointError: The checkpoint does not fit the graph.
        ConfigError: The model's own initialisation leaves variables without a value.
        ClusterError: Another process was lost, or is to train something else.
        Exception: The error of a queue runner's thread.
    """
    cluster = plan.cluster
    with graph.as_default():
        for hook in hooks:
            hook.begin()
        if cluster is not None:
            cluster.prepare()
        own = NewSessionCreator(config=plan.session_config)
        creator = own if cluster is None else cluster.session_creator(plan.session_config)
        order_sums(graph, creator)
        plan.scaffold.finalize()
        # Steps that are traced, and hooks, run fetches by the session itself.
        session = adopt(creator.create_session())
    coordinator = QueueCoordinator()
    threads: list[threading.Thread] = []
    try:
        with nullcontext() if cluster is None else cluster.ended_with_others(session):
            with graph.as_default(), session.as_default():
                initialize(session, plan)
                if tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
                    threads = tf.train.start_queue_runners(session, coordinator)
                for hook in hooks:
                    hook.after_create_session(session, coordinator)
            # When a step fails, the reader's error takes precedence.
            reading = [] if plan.elements is None else [plan.elements]
            yield _ModelSession(session, [*map(HookAdapter, hooks), *reading])
            coordinator.raise_requested_exception()
            with graph.as_default(), session.as_default():
                for hook in hooks:
                    hook.end(session)
    finally:
        coordinator.request_stop()
        if plan.elements is not None:
            plan.elements.close()
        # Threads blocked inside of TensorFlow only end with the session.
        if cluster is None:
            session.close()
        else:
            cluster.close(session)
        coordinator.join(threads, stop_grace_period_secs=_STOP_GRACE_SECS)


def add_default_saver(scaffold: tf.train.Scaffold, config: RunConfig) -> None:
    """Add a saver of all variables to the current graph, unless the model has its own.

    The model's scaffold adopts the saver when it is finalized.
    """
    if scaffold.saver is None and not tf.get_collection(tf.GraphKeys.SAVERS):
        saver = WholeModelSaver(
            max_to_keep=config.keep_checkpoint_max, keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours
        )
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)


def initialize(session: tf.Session, plan: SessionPlan) -> None:
    """Initialise the variables, tables and datasets of a session on the default graph, with a finalized scaffold.

    Raises:
        CheckpointError: The checkpoint does not fit the graph.
        ConfigError: Variables are left without a value.
    """
    scaffold = plan.scaffold
    if plan.cluster is None:
        _first_values(session, plan)
    else:
        plan.cluster.initialize(session, lambda: _first_values(session, plan))
    session.run(scaffold.local_init_op, scaffold.local_init_feed_dict)
    if plan.input_initializer is not None:
        session.run(plan.input_initializer)
    missing = session.run(scaffold.ready_op)
    if missing.size:
        names = ", ".join(name.decode() for name in missing)
        raise ConfigError(f"the model's scaffold left variables without a value: {names}")


def _first_values(session: tf.Session, plan: SessionPlan) -> None:
    """Restore the variables from the checkpoint, or initialise them."""
    scaffold = plan.scaffold
    session.run(scaffold.init_op, scaffold.init_feed_dict)
    if plan.checkpoint is not None:
        restore(session, scaffold.saver, plan.checkpoint)
    elif scaffold.init_fn is not None:
        scaffold.init_fn(session)


def restore(session: tf.Session, saver: tf.train.Saver, checkpoint: str) -> None:
    """Restore the checkpoint with a prefix; raise a CheckpointError if it does not fit the graph."""
    try:
        saver.restore(session, checkpoint)
    except (tf.errors.OpError, ValueError) as error:
        raise CheckpointError(f"the checkpoint {checkpoint} does not fit the model: {error}") from error
    logger.info(f"Restored the model from {checkpoint}.")


class WholeModelSaver(tf.train.Saver):
    """A ``tf.train.Saver`` of all variables that checks shapes before it restores.

    TensorFlow restores a value of any shape, and the model fails or goes wrong later (tensorflow/tensorflow#52220).

    Args:
        **options: as for ``tf.train.Saver``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(save_relative_paths=True, defer_build=True, **options)

    def restore(self, sess: tf.Session, save_path: str) -> None:
        """Restore the checkpoint with a prefix.

        Raises:
            CheckpointError: It is damaged, or a variable has another shape in it; nothing was restored.
        """
        saved = CheckpointReader(save_path).shapes
        for variable in sess.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES):
            name = variable.op.name
            if name in saved and not variable.shape.is_compatible_with(saved[name]):
                shapes = f"{name} has shape {saved[name]}: expected {variable.shape}"
                raise CheckpointError(f"the checkpoint {save_path} does not fit the model: {shapes}")
        super().restore(sess, save_path)


_RESERVED = ("loss", "global_step")


def evaluate_model(
    parts: ModelParts, model: BuiltModel, checkpoint: str, steps: int | None, hooks: Sequence[tf.train.SessionRunHook]
) -> dict[str, Any]:
    """Evaluate a model that was built into the current graph.

    Args:
        parts: the model's options.
        model: a model built for evaluation.
        checkpoint: the prefix of the checkpoint.
        steps: the number of batches; None for all.
        hooks: the user's session hooks.

    Returns:
        The value of each metric, the mean ``loss`` of the batches, and the ``global_step``.

    Raises:
        ConfigError: A metric is named ``loss`` or ``global_step``.
        DataExhaustedError: The input has no batch.
    """
    spec = model.spec
    taken = [name for name in _RESERVED if name in spec.eval_metric_ops]
    if taken:
        raise ConfigError(f"eval_metric_ops has {taken[0]!r}: expected another name, which no other result has")
    metrics = {**spec.eval_metric_ops, "loss": tf.metrics.mean(spec.loss)}
    # Two names may share one operation.
    update = tf.group(*dict.fromkeys(operation_of(update_op) for _, update_op in metrics.values()))
    values: dict[str, Any] = {name: value for name, (value, _) in metrics.items()}
    values["global_step"] = model.global_step
    add_default_saver(spec.scaffold, parts.config)
    plan = _plan(parts, model, checkpoint)
    with (
        model_session(model.global_step.graph, plan, [*hooks, *spec.evaluation_hooks]) as session,
        session.session.as_default(),
    ):
        if steps is None and model.inputs.num_left is not None:
            num_left = int(session.session.run(model.inputs.num_left))
            if num_left > 0:
                logger.warning(f"The last {num_left} batch(es) are too few for all towers, and are not evaluated.")
        num_steps = _run_updates(session, update, steps)
        results: dict[str, Any] = session.session.run(values)
    logger.info(f"Evaluated the model at global step {results['global_step']}, in {num_steps} step(s).")
    return results


def predict_model(
    parts: ModelParts,
    model: BuiltModel,
    checkpoint: str,
    predictions: Fetches,
    hooks: Sequence[tf.train.SessionRunHook],
) -> Iterator[Any]:
    """Yield the predictions of a model for each batch.

    The session is open from the first batch until the data end or the iterator is closed. Between batches, neither the
    graph nor the session is the default.

    Args:
        parts: the model's options.
        model: a model built for prediction.
        checkpoint: the prefix of the checkpoint.
        predictions: the fetches.
        hooks: the user's session hooks.
    """
    spec, graph = model.spec, model.global_step.graph
    with graph.as_default():
        add_default_saver(spec.scaffold, parts.config)
    plan = _plan(parts, model, checkpoint)
    with model_session(graph, plan, [*hooks, *spec.prediction_hooks]) as session:
        while not session.should_stop():
            try:
                with graph.as_default(), session.session.as_default():
                    values = session.run(predictions)
            except DataExhaustedError:
                break
            yield values


def _plan(parts: ModelParts, model: BuiltModel, checkpoint: str) -> SessionPlan:
    inputs = model.inputs
    return SessionPlan(
        model.spec.scaffold, checkpoint, parts.config.session_config, inputs.initializer, elements=inputs.elements
    )


def evaluation_dir(model_dir: str, name: str | None) -> str:
    """Return the directory of the results of evaluations with this name."""
    return os.path.join(model_dir, f"eval_{name}" if name else "eval")


def report(directory: str, results: dict[str, Any]) -> None:
    """Write results to the log and to an event file."""
    write_results(directory, results, int(results["global_step"]))
    shown = ", ".join(f"{name} = {value}" for name, value in sorted(results.items()))
    logger.info(f"Evaluation: {shown}")


def write_results(directory: str, results: Mapping[str, Any], step: int) -> None:
    """Write the numbers among the results of an evaluation to an event file, as one event of the global step."""
    os.makedirs(directory, exist_ok=True)
    summary = tf.Summary()
    for name, value in results.items():
        if np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number) and name != "global_step":
            summary.MergeFrom(create_scalar_summary(name, float(value)))
    with tf.Graph().as_default(), event_writer(directory) as writer:
        writer.add_summary(summary, step)


def chosen_predictions(predictions: Tensors, predict_keys: str | Iterable[str] | None) -> Tensors:
    """Return the predictions of a name or names, or all for None.

    Raises:
        ConfigError: The predictions are a single tensor, or none has such a name.
    """
    if not predict_keys:
        return predictions
    expected = "the name of a prediction, or a list of names"
    given = [predict_keys] if isinstance(predict_keys, str) else predict_keys
    names = check_instances("predict", "predict_keys", given, str, expected=expected)
    if not isinstance(predictions, dict):
        raise ConfigError(f"predict got predict_keys={predict_keys!r} for {predictions!r}: expected a dict")
    chosen = {name: tensor for name, tensor in predictions.items() if name in names}
    if not chosen:
        names_of_all = ", ".join(predictions)
        raise ConfigError(f"predict got predict_keys={predict_keys!r}: expected one or more of {names_of_all}")
    return chosen


def each_example(values: np.ndarray | dict[str, np.ndarray]) -> Iterator[Any]:
    """Yield the rows of an array, or of a dict of arrays.

    Raises:
        ConfigError: An array has no rows, or another number of them.
    """
    named = values if isinstance(values, dict) else {"predictions": values}
    shapes = {name: np.shape(value) for name, value in named.items()}
    if any(not shape for shape in shapes.values()) or len({shape[0] for shape in shapes.values()}) != 1:
        expected = "as many rows in each for single examples; use yield_single_examples=False"
        raise ConfigError(f"predict got predictions of the shapes {shapes}: expected {expected}")
    for row in range(next(iter(shapes.values()))[0]):
        yield {name: value[row] for name, value in named.items()} if isinstance(values, dict) else values[row]


def _run_updates(session: HookedSession, update: tf.Operation, steps: int | None) -> int:
    for num_batches in itertools.count() if steps is None else range(steps):
        if session.should_stop():
            return num_batches
        try:
            session.run(update)
        except DataExhaustedError as error:
            if num_batches == 0:
                raise DataExhaustedError("the input has no batch to evaluate") from error
            return num_batches
    return steps or 0
