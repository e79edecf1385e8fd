"""Cells around cells: dropout, residuals, devices, embeddings and projections; and `MultiRNNCell`.

A wrapper has the state of the cell inside. Only `EmbeddingWrapper` and `OutputProjectionWrapper` add a scope to the
names of variables.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from numbers import Real
from operator import attrgetter
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.step.step_seeds import uniform_of_step
from tpack.tf1.rnn_cell.base import CellAround, CellOfCells, Size, State, check_cell, linear
from tpack.tf1.rnn_cell.lstm import LSTMStateTuple
from tpack.utils import logger
from tpack.utils.validation import check_bool, check_count, check_function, check_number, shown

Probability: TypeAlias = float | tf.Tensor


_UNIT_VARIANCE = 3**0.5
"""The bound of uniform numbers whose variance is one."""


class _Wrapper(CellAround):
    """A cell around another one, with its variables under the same names."""

    def __call__(self, inputs: Any, state: State, scope: Any = None, **kwargs: Any) -> tuple[Any, State]:
        """Compute a step of the cell inside, with what the wrapper does about it."""
        inside = dict(kwargs) if scope is None else {"scope": scope, **kwargs}
        return self._wrap(lambda inputs, state: self.cell(inputs, state, **inside), inputs, state)

    wrapped_cell = property(attrgetter("cell"), doc="The cell inside.")

    def _wrap(self, step: Callable[..., tuple[Any, State]], inputs: Any, state: State) -> tuple[Any, State]:
        raise NotImplementedError


class DropoutWrapper(_Wrapper):
    """Drops out of the inputs, outputs and states of a cell.

    In a training tower of a trainer, what is dropped follows from the seed, the step and the place wherever the graph
    holds the operation once for each step in time: in ``static_rnn``, and in all of variational dropout, whose masks
    are made before the loop. So a run that was resumed drops what an uninterrupted one would. Inside of a loop, as of
    ``dynamic_rnn``, TensorFlow's own random operations drop, with other masks after a resume.

    Args:
        input_keep_prob: the probability to keep an element of the inputs: a number, or a scalar tensor.
        output_keep_prob: the same of outputs.
        state_keep_prob: the same of what goes into the next step; the output of this one is not changed by it.
        variational_recurrent: whether the same is dropped at each step and of each example, by masks that are made
            with the wrapper.
        input_size: the size of the inputs, for variational dropout of these.
        dtype: of inputs, states and outputs, for variational dropout.
        dropout_state_filter_visitor: ``function(state)`` that returns True and False in the structure of the state, or
            for whole parts of it; the default keeps the ``c`` of an `LSTMStateTuple` as it is.

    Raises:
        ConfigError: A probability is not from 0 to 1, or variational dropout lacks the dtype or the size of inputs.

    Source:
        Gal and Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural Networks, 2016.
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Probability = 1.0,
        output_keep_prob: Probability = 1.0,
        state_keep_prob: Probability = 1.0,
        variational_recurrent: bool = False,
        input_size: Size = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(cell, dtype=dtype, **kwargs)
        self._keep_probs = {
            "input": _probability("input_keep_prob", input_keep_prob),
            "state": _probability("state_keep_prob", state_keep_prob),
            "output": _probability("output_keep_prob", output_keep_prob),
        }
        self._filter: Callable[[Any], Any] = _is_dropped
        if dropout_state_filter_visitor is not None:
            self._filter = check_function(self, "dropout_state_filter_visitor", dropout_state_filter_visitor)
        self._seed = seed
        self._masks = self._make_masks(input_size, dtype) if variational_recurrent else {}

    def _wrap(self, step: Callable[..., tuple[Any, State]], inputs: Any, state: State) -> tuple[Any, State]:
        output, new_state = step(self._drop("input", inputs), state)
        if _may_drop(self._keep_probs["state"]):
            new_state = self._drop("state", new_state, _visited(self._filter, new_state))
        return self._drop("output", output), new_state

    def _drop(self, kind: str, values: Any, is_dropped: Any = True) -> Any:
        """Drop of each tensor where `is_dropped`, whose structure may be that of whole parts of the values."""
        if not _may_drop(self._keep_probs[kind]):
            return values
        structure = is_dropped if tf.nest.is_nested(is_dropped) else values
        parts = tf.nest.flatten(is_dropped) * (1 if structure is is_dropped else len(tf.nest.flatten(values)))
        held = flatten_up_to(structure, values)
        masks = flatten_up_to(structure, self._masks[kind]) if kind in self._masks else [None] * len(held)
        dropped = [
            self._drop_one(kind, index, value, mask) if is_part_dropped else value
            for index, (value, mask, is_part_dropped) in enumerate(zip(held, masks, parts, strict=True))
        ]
        return tf.nest.pack_sequence_as(structure, dropped)

    def _drop_one(self, kind: str, index: int, value: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Drop of a tensor, by the mask of the wrapper if it is variational."""
        seed = self._seed_of(kind, index)
        keep_prob = self._keep_probs[kind]
        if mask is None:
            return drop(value, keep_prob, seed, "DropoutWrapper")
        keep_prob = tf.cast(keep_prob, value.dtype) if tf.is_tensor(keep_prob) else keep_prob
        kept = value / keep_prob * tf.floor(keep_prob + mask)
        kept.set_shape(value.shape)
        return kept

    def _make_masks(self, input_size: Size, dtype: Any) -> dict[str, Any]:
        """Make what variational dropout drops by: random numbers in the structure of inputs, states and outputs."""
        if dtype is None:
            raise ConfigError(
                "DropoutWrapper got variational_recurrent=True without a dtype: expected that of its inputs"
            )
        sizes = {"input": input_size, "state": self.cell.state_size, "output": self.cell.output_size}
        wanted = {kind: size for kind, size in sizes.items() if _may_drop(self._keep_probs[kind])}
        if "input" in wanted and input_size is None:
            raise ConfigError(
                "DropoutWrapper got variational_recurrent=True and an input_keep_prob that is not 1, without an "
                "input_size: expected the size of its inputs"
            )
        return {kind: self._make_mask(kind, size, tf.as_dtype(dtype)) for kind, size in wanted.items()}

    def _make_mask(self, kind: str, sizes: Size, dtype: tf.DType) -> Any:
        """Make random numbers in the structure of some sizes, the same for each example."""
        masks = []
        for index, size in enumerate(tf.nest.flatten(sizes)):
            shape = [1, *tf.TensorShape(size if isinstance(size, tf.TensorShape) else [size]).as_list()]
            seed = self._seed_of(kind, index)
            uniform = uniform_of_step("DropoutWrapper", seed)
            masks.append(uniform(shape, dtype) if uniform else tf.random_uniform(shape, seed=seed, dtype=dtype))
        return tf.nest.pack_sequence_as(sizes, masks)

    def _seed_of(self, kind: str, index: int) -> int | None:
        """Return the seed of one of the tensors: that of TensorFlow 1, so that seeds drop what they dropped there."""
        if self._seed is None:
            return None
        digest = hashlib.md5(f"{self._seed}{kind}_{index}".encode()).hexdigest()
        return int(digest[:8], 16) & 0x7FFFFFFF


class ResidualWrapper(_Wrapper):
    """Adds the inputs of a cell to its outputs.

    Args:
        residual_fn: ``function(inputs, outputs)`` that returns the outputs, in place of adding them.

    Raises:
        ConfigError: Inputs and outputs are not of one structure and shape, and there is no function for that.
    """

    def __init__(self, cell: Any, residual_fn: Callable[[Any, Any], Any] | None = None, **kwargs: Any) -> None:
        super().__init__(cell, **kwargs)
        self._residual_fn = None
        if residual_fn is not None:
            self._residual_fn = check_function(self, "residual_fn", residual_fn)

    def _wrap(self, step: Callable[..., tuple[Any, State]], inputs: Any, state: State) -> tuple[Any, State]:
        outputs, new_state = step(inputs, state)
        combine = self._residual_fn or _add_residual
        return combine(inputs, outputs), new_state


class DeviceWrapper(_Wrapper):
    """Puts a cell on a device.

    Args:
        device: as for ``tf.device``.
    """

    def __init__(self, cell: Any, device: Any, **kwargs: Any) -> None:
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size: int | tf.Tensor, dtype: Any) -> State:
        """Return that of the cell inside, on the device."""
        with self._on_device():
            return super().zero_state(batch_size, dtype)

    def _wrap(self, step: Callable[..., tuple[Any, State]], inputs: Any, state: State) -> tuple[Any, State]:
        with self._on_device():
            return step(inputs, state)

    def _on_device(self) -> AbstractContextManager[Any]:
        return tf.device(self._device)


class OutputProjectionWrapper(CellAround):
    """A cell whose outputs go through a matrix.

    A matrix after the loop does the same in one product.

    Args:
        output_size: the size that the outputs get.
        activation: a function of them; the default is none.

    Creates:
        ``kernel``, ``bias``, and the variables of the cell.
    """

    def __init__(self, cell: Any, output_size: int, activation: Any = None, reuse: Any = None) -> None:
        super().__init__(cell, _reuse=reuse)
        self._output_size = check_count(self, "output_size", output_size)
        self._activation = None if activation is None else check_function(self, "activation", activation)

    @property
    def output_size(self) -> int:
        """The size of the output."""
        return self._output_size

    def call(self, inputs: Any, state: State) -> tuple[tf.Tensor, State]:
        """Compute a step."""
        output, new_state = self.cell(inputs, state)
        projected = linear(output, self._output_size)
        return projected if self._activation is None else self._activation(projected), new_state


class EmbeddingWrapper(CellAround):
    """A cell whose inputs are numbers of classes, for which vectors are looked up.

    ``tf.nn.embedding_lookup`` before the loop does the same at once. The vectors are on the CPU.

    Args:
        embedding_classes: how many classes.
        embedding_size: the size of a vector.
        initializer: of the vectors; the default is that of the scope, or uniform numbers with a variance of one.

    Creates:
        ``embedding``, and the variables of the cell.
    """

    def __init__(
        self, cell: Any, embedding_classes: int, embedding_size: int, initializer: Any = None, reuse: Any = None
    ) -> None:
        super().__init__(cell, _reuse=reuse)
        self._classes = check_count(self, "embedding_classes", embedding_classes)
        self._size = check_count(self, "embedding_size", embedding_size)
        self._initializer = initializer

    def call(self, inputs: tf.Tensor, state: State) -> tuple[Any, State]:
        """Compute a step."""
        initializer = self._initializer or tf.get_variable_scope().initializer
        if initializer is None:
            initializer = tf.random_uniform_initializer(-_UNIT_VARIANCE, _UNIT_VARIANCE)
        with tf.device("/cpu:0"):
            dtype = tf.nest.flatten(state)[0].dtype
            vectors = tf.get_variable("embedding", [self._classes, self._size], dtype, initializer)
            looked_up = tf.nn.embedding_lookup(vectors, tf.reshape(inputs, [-1]))
        return self.cell(looked_up, state)


def drop(value: tf.Tensor, keep_prob: Probability, seed: int | None, kind: str) -> tf.Tensor:
    """Drop elements out of a tensor, by the seed of the step in a trainer and else by TensorFlow's own operation.

    ``keep_prob`` of 1 returns the value; ``kind`` names the caller, see `tpack.step.step_seeds`.
    """
    if not _may_drop(keep_prob):
        return value
    rate = 1 - (tf.cast(keep_prob, value.dtype) if tf.is_tensor(keep_prob) else keep_prob)
    uniform = uniform_of_step(kind, seed)
    if uniform is None:
        return tf.nn.dropout(value, rate=rate, seed=seed)
    return tf.nn.experimental.general_dropout(value, rate, uniform)


def flatten_up_to(structure: Any, values: Any) -> list[Any]:
    """Return the parts of values at the leaves of a structure; raise ConfigError if theirs is another one."""
    if not tf.nest.is_nested(structure):
        return [values]
    parts, held = _children(structure), _children(values)
    if len(parts) != len(held):
        raise ConfigError(f"a structure of {len(parts)} parts does not fit values of {len(held)}")
    return [leaf for part, value in zip(parts, held, strict=True) for leaf in flatten_up_to(part, value)]


def _children(structure: Any) -> list[Any]:
    if isinstance(structure, dict):
        return [structure[key] for key in sorted(structure)]
    return list(structure) if tf.nest.is_nested(structure) else [structure]


def _visited(visitor: Callable[[Any], Any], value: Any) -> Any:
    """Return which parts a filter keeps; it is called on the whole, and on each part of what it keeps."""
    answer = visitor(value)
    if not tf.nest.is_nested(answer):
        if not answer or not tf.nest.is_nested(value):
            return bool(answer)
        answer = _shallow(value)
    parts = zip(tf.nest.flatten(answer), flatten_up_to(answer, value), strict=True)
    return tf.nest.pack_sequence_as(answer, [bool(asked) and _visited(visitor, part) for asked, part in parts])


def _shallow(value: Any) -> Any:
    """Return a structure of the direct parts of a value, all True."""
    if isinstance(value, dict):
        return type(value)((key, True) for key in value)
    return type(value)(*[True] * len(value)) if hasattr(value, "_fields") else type(value)([True] * len(value))


def _is_dropped(state: Any) -> Any:
    """Tell which parts of a state are dropped: all but what cells with long short-term memory remember."""
    if isinstance(state, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(state, tf.TensorArray)


def _probability(name: str, value: Probability) -> Probability:
    """Return a probability, a constant tensor as its number; one that the graph computes is not looked at."""
    known = tf.get_static_value(value) if tf.is_tensor(value) else value
    if known is None:
        return value
    return check_number("DropoutWrapper", name, float(known) if not isinstance(known, str) else known, 0, 1)


def _may_drop(keep_prob: Probability) -> bool:
    return not isinstance(keep_prob, Real) or keep_prob < 1


def _add_residual(inputs: Any, outputs: Any) -> Any:
    tf.nest.assert_same_structure(inputs, outputs)

    def add(value: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        if not value.shape.is_compatible_with(output.shape):
            raise ConfigError(
                f"ResidualWrapper got inputs of shape {value.shape} and outputs of shape {output.shape}: expected the "
                "same, or a residual_fn"
            )
        return value + output

    return tf.nest.map_structure(add, inputs, outputs)


class MultiRNNCell(CellOfCells):
    """Several cells, each of which takes the output of the one before.

    The same cell twice shares its variables, as it does in TensorFlow 1.15; a warning says so.

    Args:
        cells: a list or tuple of cells.
        state_is_tuple: whether the state is a tuple of the cells' states, or one tensor of all; the latter only for
            cells whose state is one tensor.

    Creates:
        The variables of the cells, under ``cell_0``, ``cell_1`` and so on.

    Raises:
        WrongTypeError: Something else than a list of cells came.
        ConfigError: There is none, or one with a nested state where there is to be one tensor.
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not isinstance(cells, (list, tuple)):
            raise WrongTypeError(f"MultiRNNCell got cells={shown(cells)}: expected a list or tuple of RNNCells")
        if not cells:
            raise ConfigError("MultiRNNCell got no cells: expected at least one")
        self._cells = [check_cell(self, f"cells[{index}]", cell) for index, cell in enumerate(cells)]
        self._state_is_tuple = check_bool(self, "state_is_tuple", state_is_tuple)
        nested = [cell.state_size for cell in cells if tf.nest.is_nested(cell.state_size)]
        if nested and not state_is_tuple:
            raise ConfigError(
                f"MultiRNNCell got state_is_tuple=False and cells with states of {nested}: expected cells whose "
                "state is "
                "one tensor"
            )
        if len({id(cell) for cell in cells}) < len(cells):
            logger.warning("MultiRNNCell got the same cell several times, whose variables are shared: is this meant?")

    @property
    def cells(self) -> list[Any]:
        """The cells."""
        return list(self._cells)

    @property
    def state_size(self) -> Any:
        """The sizes of the cells' states, or their sum."""
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """The size of the last cell's output."""
        return self._cells[-1].output_size

    def _cells_inside(self) -> list[Any]:
        return self._cells

    def zero_state(self, batch_size: int | tf.Tensor, dtype: Any) -> State:
        """Return the state of zeros of each cell."""
        with tf.name_scope("MultiRNNCellZeroState", values=[batch_size]):
            if self._state_is_tuple:
                return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)
            return super().zero_state(batch_size, dtype)

    def call(self, inputs: Any, state: State) -> tuple[Any, State]:
        """Compute a step of each cell; a state that is not one for each is refused."""
        if self._state_is_tuple:
            if tf.is_tensor(state) or len(state) != len(self._cells):
                raise ConfigError(f"MultiRNNCell got the state {state}: expected a tuple of {len(self._cells)}")
            states = state
        else:
            states = tf.split(state, [cell.state_size for cell in self._cells], axis=1)
        new_states = []
        for index, (cell, cell_state) in enumerate(zip(self._cells, states, strict=True)):
            with tf.variable_scope(f"cell_{index}"):
                inputs, new_state = cell(inputs, cell_state)
            new_states.append(new_state)
        return inputs, tuple(new_states) if self._state_is_tuple else tf.concat(new_states, 1)
