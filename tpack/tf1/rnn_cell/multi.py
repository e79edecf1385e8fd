"""Cells one above the other: `MultiRNNCell`."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.rnn_cell.base import CellOfCells, State, check_cell
from tpack.utils import logger
from tpack.utils.validation import check_bool, shown


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
