"""Networks in both directions, one above the other, and helpers on the order of dimensions."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.signatures import like
from tpack.utils.validation import shown

_SCOPE = "stack_bidirectional_rnn"


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: tf.Tensor,
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[tf.Tensor, tuple[Any, ...], tuple[Any, ...]]:
    """Compute layers of bidirectional networks: inputs are [batch, time, depth], or time first with ``time_major``.

    Each layer takes the joined outputs of the one before. The lists have one cell or initial state for each layer;
    states are zeros by default.

    Returns:
        The joined outputs of the last layer, and the last states of all layers, forward and backward.

    Raises:
        ConfigError: There are no cells, or not one of each for each layer.

    Source:
        Graves et al., Speech Recognition with Deep Recurrent Neural Networks, 2013.
    """
    pairs = _layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    options = {
        "dtype": dtype,
        "sequence_length": sequence_length,
        "parallel_iterations": parallel_iterations,
        "swap_memory": swap_memory,
        "time_major": time_major,
    }

    def layer(index: int, below: tf.Tensor, cells_and_states: tuple[Any, ...]) -> tuple[tf.Tensor, Any, Any]:
        cell_fw, cell_bw, state_fw, state_bw = cells_and_states
        with tf.variable_scope(f"cell_{index}"):
            outputs, states = tf.nn.bidirectional_dynamic_rnn(
                cell_fw, cell_bw, below, initial_state_fw=state_fw, initial_state_bw=state_bw, **options
            )
            return tf.concat(outputs, 2), *states

    return _stack(layer, inputs, pairs, scope)


@like(stack_bidirectional_dynamic_rnn, without="parallel_iterations time_major swap_memory")
def stack_bidirectional_rnn(
    inputs: Any, dtype: Any, sequence_length: Any, scope: Any, **layers: Any
) -> tuple[list[tf.Tensor], tuple[Any, ...], tuple[Any, ...]]:
    """Compute `stack_bidirectional_dynamic_rnn` without a loop: each step has its own part of the graph.

    ``inputs`` is a list of [batch, depth], one for each step, and so are the outputs.

    Raises:
        ConfigError: There are no cells, or not one of each for each layer.
    """
    pairs = _layers(**layers)

    def layer(index: int, below: Any, cells_and_states: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        with tf.variable_scope(f"cell_{index}") as cell_scope:
            return tf.nn.static_bidirectional_rnn(
                *cells_and_states[:2],
                below,
                initial_state_fw=cells_and_states[2],
                initial_state_bw=cells_and_states[3],
                sequence_length=sequence_length,
                dtype=dtype,
                scope=cell_scope,
            )

    return _stack(layer, inputs, pairs, scope)


def transpose_batch_time(x: tf.Tensor) -> tf.Tensor:
    """Swap the first two dimensions of a tensor of any rank; raise ConfigError if it has fewer than two."""
    x = tf.convert_to_tensor(x)
    if x.shape.rank is not None and x.shape.rank < 2:
        raise ConfigError(f"transpose_batch_time got a tensor of shape {x.shape}: expected two dimensions or more")
    swapped = tf.transpose(x, tf.concat([[1, 0], tf.range(2, tf.rank(x))], 0))
    if x.shape.rank is not None:
        sizes = x.shape.as_list()
        swapped.set_shape([sizes[1], sizes[0], *sizes[2:]])
    return swapped


def best_effort_input_batch_size(flat_input: Sequence[tf.Tensor]) -> Any:
    """Return the batch size of inputs of [time, batch, ...]: a number if that of any is known, else a tensor."""
    for tensor in flat_input:
        if tensor.shape.rank is not None and tensor.shape.rank >= 2:
            known = tf.compat.dimension_value(tensor.shape[1])
            if known is not None:
                return known
    return tf.shape(flat_input[0])[1]


def _layers(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    initial_states_fw: Sequence[Any] | None,
    initial_states_bw: Sequence[Any] | None,
) -> list[tuple[Any, Any, Any, Any]]:
    given = {
        "cells_fw": cells_fw,
        "cells_bw": cells_bw,
        "initial_states_fw": initial_states_fw,
        "initial_states_bw": initial_states_bw,
    }
    for name, values in given.items():
        if not isinstance(values, (list, tuple)) and (values is not None or name.startswith("cells")):
            raise WrongTypeError(f"{_SCOPE} got {name}={shown(values)}: expected a list, one for each layer")
    if not cells_fw or any(values is not None and len(values) != len(cells_fw) for values in given.values()):
        sizes = ", ".join(f"{len(values)} {name}" for name, values in given.items() if values is not None)
        raise ConfigError(f"{_SCOPE} got {sizes}: expected as many of each, and at least one")
    nothing = [None] * len(cells_fw)
    return list(zip(cells_fw, cells_bw, initial_states_fw or nothing, initial_states_bw or nothing, strict=True))


def _stack(
    layer: Callable[..., tuple[Any, Any, Any]], inputs: Any, layers: Sequence[tuple[Any, ...]], scope: Any
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    states_fw, states_bw = [], []
    with tf.variable_scope(_SCOPE if scope is None else scope):
        for index, cells_and_states in enumerate(layers):
            inputs, state_fw, state_bw = layer(index, inputs, cells_and_states)
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return inputs, tuple(states_fw), tuple(states_bw)
