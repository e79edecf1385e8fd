"""What functions keep is found, and done again for other towers where that is possible."""

import functools

import pytest
import tensorflow.compat.v1 as tf

from tpack.copying.python_state import PythonState
from tpack.copying.regions import NotAlike

NUMBERS = {"calls": 0}


class Model:
    def __init__(self):
        self.cost = None
        self.costs = []
        self.count = 0

    def build(self, _=None):
        self.cost = tf.ones([])
        self.costs.append(self.cost)


def test_attributes_and_lists_are_set_again(graph):
    model = Model()
    state = PythonState(functools.partial(model.build, 3))
    model.build()
    state.note_changes()
    other = tf.zeros([])
    state.replay(lambda kept: other if kept is model.costs[0] else None)
    assert model.cost is other
    assert model.costs[1:] == [other]


def test_variables_of_closures_are_found(graph):
    last = None

    def build():
        nonlocal last
        last = tf.ones([])

    state = PythonState(build)
    build()
    state.note_changes()
    other = tf.zeros([])
    state.replay(lambda _: other)
    assert last is other


def _count(model):
    model.count += 1


def _number(_):
    NUMBERS["calls"] += 1


def _new(model):
    model.other = tf.ones([])


def _removed(model):
    del model.cost


def _cleared(model):
    model.costs.clear()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_count, "'count'"),
        (_number, "'calls'"),
        (_new, "keeps 'other'"),
        (_removed, "takes something out"),
        (_cleared, "changes Model.costs"),
    ],
)
def test_other_changes_are_refused(graph, change, message):
    model = Model()
    model.build()

    def build():
        change(model)

    state = PythonState(build if change is not _number else _number)
    change(model)
    with pytest.raises(NotAlike, match=message):
        state.note_changes()
