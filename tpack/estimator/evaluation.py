"""Run a trained model over an input, to evaluate its metrics or to predict."""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, DataExhaustedError
from tpack.estimator.building import BuiltModel, ModelParts
from tpack.estimator.session import SessionPlan, add_default_saver, model_session
from tpack.estimator.spec import Tensors, operation_of
from tpack.step.hooked_session import HookedSession
from tpack.tfutils.summary import create_scalar_summary, event_writer
from tpack.types import Fetches
from tpack.utils import logger
from tpack.utils.validation import check_instances

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
