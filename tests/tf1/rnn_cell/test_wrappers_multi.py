"""Cells one above the other: what is refused, and whose variables there are."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.rnn_cell import BasicLSTMCell, DropoutWrapper, GRUCell, MultiRNNCell


@pytest.mark.parametrize(
    ("act", "kind", "message"),
    [
        (lambda: MultiRNNCell(GRUCell(2)), WrongTypeError, "cells=a GRUCell: expected a list or tuple of RNNCells"),
        (lambda: MultiRNNCell([]), ConfigError, "got no cells: expected at least one"),
        (lambda: MultiRNNCell([GRUCell(2)], 1), WrongTypeError, "state_is_tuple=1: expected True or False"),
        (lambda: MultiRNNCell([BasicLSTMCell(2)], False), ConfigError, "expected cells whose state is one tensor"),
        (
            lambda: MultiRNNCell([GRUCell(2)])(tf.zeros([1, 2]), tf.zeros([1, 2])),
            ConfigError,
            "MultiRNNCell got the state .* expected a tuple of 1",
        ),
    ],
)
def test_what_cannot_work_is_refused(graph, act, kind, message):
    with pytest.raises(kind, match=message):
        act()


def test_weights_are_those_of_all_cells_each_once(graph):
    cells = [DropoutWrapper(GRUCell(3), 0.5), BasicLSTMCell(3), BasicLSTMCell(2)]
    cell = MultiRNNCell(cells)
    assert cell.cells == cells
    cell(tf.zeros([2, 3]), cell.zero_state(2, tf.float32))
    names = [variable.op.name for variable in tf.global_variables()]
    assert names[0] == "multi_rnn_cell/cell_0/gru_cell/gates/kernel"
    assert names[-1] == "multi_rnn_cell/cell_2/basic_lstm_cell/bias"
    for weights in (cell.weights, cell.variables, cell.trainable_weights, cell.trainable_variables):
        assert [variable.op.name for variable in weights] == names
    assert cell.non_trainable_variables == []
    assert [variable.op.name for variable in cells[0].weights] == names[:4]


def test_the_same_cell_twice_shares_its_variables_and_is_warned_of(graph):
    with captured_log() as lines:
        cell = MultiRNNCell([GRUCell(3)] * 2)
    assert "the same cell several times" in str(lines)
    cell(tf.zeros([2, 3]), cell.zero_state(2, tf.float32))
    assert len(tf.global_variables()) == 4
