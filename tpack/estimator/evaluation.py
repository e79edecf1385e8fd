"""Evaluate: run the metrics of a model over an input, and return their values."""

import itertools
import os
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, DataExhaustedError
from tpack.estimator.building import BuiltModel, ModelParts
from tpack.estimator.checkpoints import add_default_saver
from tpack.estimator.operations import operation_of
from tpack.estimator.session import SessionPlan, model_session
from tpack.estimator.summaries import write_results
from tpack.tfutils.hooked_session import HookedSession
from tpack.utils import logger

_RESERVED = ("loss", "global_step")


def evaluate_model(
    parts: ModelParts, model: BuiltModel, checkpoint: str, steps: int | None, hooks: Sequence[Any]
) -> dict[str, Any]:
    """Evaluate a model that was built into the current graph.

    Args:
        parts: the model's options.
        model: a model built for evaluation.
        checkpoint: the prefix of the model's values.
        steps: how many batches; None for all.
        hooks: the user's session hooks.

    Returns:
        The value of each metric, the mean ``loss`` of the batches, and the ``global_step``.

    Raises:
        ConfigError: A metric is called ``loss`` or ``global_step``.
        DataExhaustedError: There is no batch at all.
    """
    spec = model.spec
    taken = [name for name in _RESERVED if name in spec.eval_metric_ops]
    if taken:
        raise ConfigError(f"a metric cannot be called {taken[0]!r}, which the results of an evaluation have anyway")
    metrics = {**spec.eval_metric_ops, "loss": tf.metrics.mean(spec.loss)}
    # Two names may share one operation.
    update = tf.group(*dict.fromkeys(operation_of(update_op) for _, update_op in metrics.values()))
    values: dict[str, Any] = {name: value for name, (value, _) in metrics.items()}
    values["global_step"] = model.global_step
    add_default_saver(spec.scaffold, parts.config)
    plan = SessionPlan(spec.scaffold, checkpoint, parts.config.session_config, model.inputs.initializer)
    with (
        model_session(model.global_step.graph, plan, [*hooks, *spec.evaluation_hooks]) as session,
        session.session.as_default(),
    ):
        if steps is None and model.inputs.num_left is not None:
            _warn_of_left_batches(int(session.session.run(model.inputs.num_left)))
        num_steps = _run_updates(session, update, steps)
        results: dict[str, Any] = session.session.run(values)
    logger.info(f"Evaluated the model at global step {results['global_step']}, in {num_steps} step(s).")
    return results


def evaluation_dir(model_dir: str, name: str | None) -> str:
    """Return where the results of evaluations with this name go."""
    return os.path.join(model_dir, f"eval_{name}" if name else "eval")


def report(directory: str, results: dict[str, Any]) -> None:
    """Write results to the log and for TensorBoard."""
    write_results(directory, results, int(results["global_step"]))
    shown = ", ".join(f"{name} = {value}" for name, value in sorted(results.items()))
    logger.info(f"Evaluation: {shown}")


def _warn_of_left_batches(num_left: int) -> None:
    if num_left > 0:
        logger.warning(f"The last {num_left} batch(es) are too few for all towers, and are not evaluated.")


def _run_updates(session: HookedSession, update: Any, steps: int | None) -> int:
    for num_batches in itertools.count() if steps is None else range(steps):
        if session.should_stop():
            return num_batches
        try:
            session.run(update)
        except DataExhaustedError as error:
            if num_batches == 0:
                raise DataExhaustedError("there is nothing to evaluate: the input has no batch at all") from error
            return num_batches
    return steps or 0
