"""What a model is fed: the features and labels of an input_fn, or what a server gives to a model that was exported.

An input_fn returns a ``tf.data.Dataset`` or tensors. Both have features alone, or a pair of features and labels. Where
there are data in place of the function, or it returns such, `tpack.estimator.data_adapter` makes a Dataset of them. Functions
of the user's are called with those of the optional arguments that they take.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.distribute.strategy import DistributionStrategy
from tpack.errors import ConfigError
from tpack.estimator.data_adapter import GivenDataset, GivenInput, are_tensors, given_dataset
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import AnyTensor, ModeKeys, Tensors
from tpack.graph_copy import op_kinds
from tpack.input_source.data_adapter import is_generator_function
from tpack.input_source.dataset import StreamElements
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, shown

InputFn = Callable[..., Any]
Input: TypeAlias = Any
"""An input_fn, or data as `tpack.estimator.data_adapter` takes them."""
_RECEIVER_NAME = "input"
_EXAMPLES_NAME = "examples"
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@check_arguments
class ServingInputReceiver(NamedTuple):
    """The features of a model that is served, and the tensors that are fed.

    Attributes:
        features: what the model_fn is called with, a tensor or a dict of tensors.
        receiver_tensors: placeholders, a tensor or a dict of them by the names that clients use. A single one is called
            ``input``.
        receiver_tensors_alternatives: further ways to feed the model: name to a dict of tensors. Each export output is
            offered for each of them too, as ``<output>:<name>``.
    """

    features: Tensors
    receiver_tensors: Tensors
    receiver_tensors_alternatives: Mapping[str, Tensors] | None = None


@check_arguments
def build_raw_serving_input_receiver_fn(
    features: Mapping[str, tf.Tensor | tf.TensorSpec | np.ndarray], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Return a function that makes a placeholder for each feature.

    Args:
        features: name to a tensor, ``tf.TensorSpec`` or array, whose dtype and shape are taken.
        default_batch_size: the first dimension of the placeholders; None for any.

    Shapes:
        [B, ...] to [default_batch_size, ...].

    Raises:
        ConfigError: A feature has no first dimension.

    Source:
        The function of the same name in ``tf.estimator.export``.
    """
    if default_batch_size is not None:
        check_count("build_raw_serving_input_receiver_fn", "default_batch_size", default_batch_size)
    specs = {name: (tf.as_dtype(item.dtype), tf.TensorShape(item.shape)) for name, item in features.items()}
    for name, (_, shape) in specs.items():
        if shape.rank == 0:
            raise ConfigError(f"the feature {name!r} has no batch dimension")

    def receive() -> ServingInputReceiver:
        placeholders = {
            name: tf.placeholder(dtype, None if shape.rank is None else [default_batch_size, *shape[1:]], name=name)
            for name, (dtype, shape) in specs.items()
        }
        return ServingInputReceiver(placeholders, placeholders)

    return receive


@check_arguments
def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Return a function that makes a placeholder for serialized ``tf.train.Example`` messages and parses them.

    Args:
        feature_spec: what ``tf.io.parse_example`` takes.
        default_batch_size: the number of examples; None for any.

    Shapes:
        [default_batch_size] strings to the features that they hold.

    Raises:
        ConfigError: The spec is empty.

    Source:
        The function of the same name in ``tf.estimator.export``.
    """
    if default_batch_size is not None:
        check_count("build_parsing_serving_input_receiver_fn", "default_batch_size", default_batch_size)
    if not feature_spec:
        raise ConfigError("expected the features to parse out of examples, got none")

    def receive() -> ServingInputReceiver:
        examples = tf.placeholder(tf.string, [default_batch_size], name="input_example_tensor")
        return ServingInputReceiver(tf.io.parse_example(examples, dict(feature_spec)), {_EXAMPLES_NAME: examples})

    return receive


def receiver_tensors_by_name(tensors: Tensors) -> dict[str, AnyTensor]:
    """Return the tensors that are fed, as a dict.

    Args:
        tensors: a tensor or a dict.

    Raises:
        ConfigError: It is something else.
    """
    named = dict(tensors) if isinstance(tensors, Mapping) else {_RECEIVER_NAME: tensors}
    for name, tensor in named.items():
        if not isinstance(tensor, tf.Tensor | tf.SparseTensor):
            raise ConfigError(f"receiver_tensors must be tensors, and {name!r} is {tensor!r}")
    return named


@dataclass(frozen=True)
class Inputs:
    """The input of a model.

    Attributes:
        features: any nest of tensors.
        labels: the same, or None.
        initializer: an operation that opens the dataset, or None.
        num_left: how many batches at the end are not enough for all towers, or -1 if that is unknown: a tensor, or None
            where no batch can be left.
        elements: what reads data in Python, to be closed with the session; None where nothing does.
    """

    features: object
    labels: object
    initializer: tf.Operation | None = None
    num_left: tf.Tensor | None = None
    elements: StreamElements | None = None


def call_input_fn(given: GivenInput, mode: str, *, params: object, config: RunConfig) -> Inputs:
    """Call an input_fn in the current graph, on the CPU, or read data.

    Args:
        given: an input_fn, which takes any of ``mode``, ``params`` and ``config``; or data.
        mode: one of `ModeKeys`.
        params: the parameters of the model.
        config: the `RunConfig`.

    Returns:
        The input. In prediction, only the first part of a sequence is looked at.

    Raises:
        ConfigError: It returns a sequence that is no pair, or a Dataset of another graph; or as `given_dataset` says.
    """
    with tf.device("/device:CPU:0"):
        result, elements = _call(given, 1, {"mode": mode, "params": params, "config": config})
        initializer = None
        if isinstance(result, tf.compat.v2.data.Dataset):
            iterator = _iterator(tf.data.make_initializable_iterator, result)
            result, initializer = iterator.get_next(), iterator.initializer
    return replace(_parted(result, initializer, mode), elements=elements)


def call_distributed_input_fn(
    given: GivenInput, mode: str, strategy: DistributionStrategy, *, params: object, config: RunConfig
) -> Inputs:
    """Call an input_fn in the current graph, or read data, and give each tower of a strategy batches of its own.

    Args:
        given: an input_fn that returns a Dataset, and takes any of ``mode``, ``params`` and ``config``; or data.
        mode: one of `ModeKeys`.
        strategy: the ``DistributionStrategy``.
        params: the parameters of the model.
        config: the `RunConfig`.

    Returns:
        The input, of which each tower has its part.

    Shapes:
        [B, ...] in the Dataset, and for each tower.

    Raises:
        ConfigError: It returns something else than data, or a Dataset of sequences that are no pairs; or as
            `given_dataset` says.

    Source:
        The input of TensorFlow 1's estimators under a strategy.
    """
    num_towers = len(strategy.worker_devices)
    with tf.device("/device:CPU:0"):
        arguments = {"mode": mode, "params": params, "config": config}
        dataset, elements = _call(given, num_towers, arguments)
        if not isinstance(dataset, tf.compat.v2.data.Dataset):
            raise ConfigError(
                f"under a distribution strategy input_fn must return a tf.data.Dataset, or data to make one of; it "
                f"returned {shown(dataset)}"
            )
        size = tf.data.experimental.cardinality(dataset)
        num_left = tf.where(size < 0, tf.constant(-1, size.dtype), size % num_towers)
    distributed = strategy.distribute_dataset(lambda: dataset)
    iterator = _iterator(type(distributed).make_initializable_iterator, distributed)
    inputs = _parted(iterator.get_next(), iterator.initializer, mode)
    return replace(inputs, num_left=num_left, elements=elements)


def warn_if_endless(inputs: Inputs, doing: str) -> None:
    """Log a warning when nothing in the current graph can make the input end.

    Args:
        inputs: the input.
        doing: what goes on until the end.
    """
    has_queues = bool(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS))
    types = {operation.type for operation in tf.get_default_graph().get_operations()}
    if inputs.initializer is None and not has_queues and not types & op_kinds.ITERATORS:
        logger.warning(f"The input is neither a Dataset nor a queue, so it does not end, and {doing} goes on for ever.")


def call_with_accepted(fn: Callable[..., Any], optional: Mapping[str, Any], **arguments: Any) -> Any:
    """Call ``fn`` with ``arguments``, and with those of ``optional`` that it takes."""
    return fn(**arguments, **{name: value for name, value in optional.items() if takes_argument(fn, name)})


def takes_argument(fn: Callable[..., Any], name: str) -> bool:
    """Tell whether a function, partial or callable object takes an argument of this name.

    What a partial has fixed by name is not taken any more.
    """
    if isinstance(fn, functools.partial) and name in fn.keywords:
        return False
    parameters = inspect.signature(fn).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return True
    return any(parameter.name == name and parameter.kind in _NAMED for parameter in parameters)


def required_arguments(fn: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments that a function cannot do without."""
    parameters = inspect.signature(fn).parameters.values()
    return [p.name for p in parameters if p.kind in _NAMED and p.default is inspect.Parameter.empty]


def _call(given: GivenInput, num_towers: int, arguments: Mapping[str, Any]) -> GivenDataset:
    """Return tensors, or a dataset and what reads it."""
    mode = arguments["mode"]
    read = functools.partial(
        given_dataset, num_towers=num_towers, is_training=mode == ModeKeys.TRAIN, has_labels=mode != ModeKeys.PREDICT
    )
    if not given.is_input_fn:
        if is_generator_function(given.data):
            taken = {name: value for name, value in arguments.items() if takes_argument(given.data, name)}
            given = replace(given, data=functools.partial(given.data, **taken))
        return read(given)
    result = call_with_accepted(given.data, arguments)
    is_dataset = isinstance(result, tf.compat.v2.data.Dataset)
    if is_dataset or not are_tensors(result):
        return read(replace(given, data=result, is_repeated=given.is_repeated and not is_dataset))
    if given.batch_size is not None:
        raise ConfigError(f"batch_size={given.batch_size} was given, and input_fn returns tensors, which are a batch")
    return GivenDataset(result, None)


def _iterator(make: Callable[[Any], Any], dataset: Any) -> Any:
    try:
        return make(dataset)
    except ValueError as error:
        raise ConfigError(
            "the tf.data.Dataset was made in another graph: give an input_fn that makes it, which is called in the "
            "right graph"
        ) from error


def _parted(result: object, initializer: tf.Operation | None, mode: str) -> Inputs:
    """Return features and labels of what an input_fn or its Dataset gave."""
    if result is None or (isinstance(result, tuple | list) and len(result) > 0 and result[0] is None):
        what = "None" if result is None else "None as the features"
        raise ConfigError(f"input_fn returned {what}: expected a Dataset, features, or a pair of features and labels")
    if isinstance(result, tuple | list) and result and mode == ModeKeys.PREDICT:
        # What comes first are the features, even where they are a pair themselves.
        return Inputs(result[0], None, initializer)
    if not isinstance(result, tuple | list):
        return Inputs(result, None, initializer)
    if len(result) != 2:
        raise ConfigError(f"input_fn gives features, or a pair of features and labels; it returned {shown(result)}")
    return Inputs(result[0], result[1], initializer)
