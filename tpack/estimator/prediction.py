"""Predict: run a model over an input, and give out what it says of each example."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tpack.errors import ConfigError, DataExhaustedError
from tpack.estimator.building import BuiltModel, ModelParts
from tpack.estimator.checkpoints import add_default_saver
from tpack.estimator.session import SessionPlan, model_session


def chosen_predictions(predictions: Any, predict_keys: Any) -> Any:
    """Return those predictions that a user wants.

    Args:
        predictions: a tensor or a dict of tensors.
        predict_keys: a name, names, or None for all.

    Raises:
        ConfigError: There is one tensor without a name, or none of the names.
    """
    if not predict_keys:
        return predictions
    names = [predict_keys] if isinstance(predict_keys, str) else list(predict_keys)
    if not isinstance(predictions, dict):
        raise ConfigError(f"predict_keys={predict_keys!r} wants predictions by name, and they are {predictions!r}")
    chosen = {name: tensor for name, tensor in predictions.items() if name in names}
    if not chosen:
        raise ConfigError(f"none of predict_keys={predict_keys!r} is a prediction: there are {', '.join(predictions)}")
    return chosen


def predict_model(
    parts: ModelParts, model: BuiltModel, checkpoint: str, predictions: Any, hooks: Sequence[Any]
) -> Iterator[Any]:
    """Yield the predictions of a model for each batch.

    The session opens at the first one, and closes with the data or when the iterator is closed. Between two of them,
    neither the graph nor the session is the default one.

    Args:
        parts: the model's options.
        model: a model built for prediction.
        checkpoint: the prefix of the model's values.
        predictions: what to fetch.
        hooks: the user's session hooks.
    """
    spec, graph = model.spec, model.global_step.graph
    with graph.as_default():
        add_default_saver(spec.scaffold, parts.config)
    plan = SessionPlan(spec.scaffold, checkpoint, parts.config.session_config, model.inputs.initializer)
    with model_session(graph, plan, [*hooks, *spec.prediction_hooks]) as session:
        while not session.should_stop():
            try:
                with graph.as_default(), session.session.as_default():
                    values = session.run(predictions)
            except DataExhaustedError:
                break
            yield values


def each_example(values: Any) -> Iterator[Any]:
    """Yield the rows of a batch of predictions.

    Args:
        values: an array, or a dict of arrays with as many rows.

    Raises:
        ConfigError: They have no rows, or different numbers of them.
    """
    named = values if isinstance(values, dict) else {"predictions": values}
    shapes = {name: np.shape(value) for name, value in named.items()}
    if any(not shape for shape in shapes.values()) or len({shape[0] for shape in shapes.values()}) != 1:
        raise ConfigError(
            f"predictions of single examples must have one row for each, and the shapes are {shapes}: use "
            "yield_single_examples=False"
        )
    for row in range(next(iter(shapes.values()))[0]):
        yield {name: value[row] for name, value in named.items()} if isinstance(values, dict) else values[row]
