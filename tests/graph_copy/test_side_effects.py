"""What functions keep is found, and done again for other towers where that is possible."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.graph_copy.capture import NotReplicable
from tpack.graph_copy.side_effects import PythonState

NUMBERS = {"calls": 0}


def _of_tpack(kind):
    """Return a class or function as one that tpack defines."""
    kind.__module__ = "tpack.train.somewhere"
    return kind


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
    with pytest.raises(NotReplicable, match=message):
        state.note_changes()


def test_what_tpack_keeps_is_looked_at_too_but_for_what_repeats_itself(graph):
    class Notes:
        def __init__(self):
            self.tensors, self.names = [], []

        def note(self):
            self.names.append("a name")

    notes, costs = _of_tpack(Notes)(), []

    def build():
        notes.tensors.append(tf.ones([]))
        costs.append(tf.ones([]))

    state = PythonState(_of_tpack(build))
    build()
    state.note_changes()
    state.replay(lambda kept: kept)
    assert notes.tensors[0] is notes.tensors[1]
    assert costs[0] is costs[1]
    for repeated in ([], [notes.note]):
        state = PythonState(_of_tpack(lambda: notes.note()))
        notes.note()
        if repeated:
            state.note_changes(repeated)
            state.replay(lambda kept: kept)
        else:
            with pytest.raises(NotReplicable, match=r"adds to Notes.names str values"):
                state.note_changes()
    assert len(notes.names) == 2


def test_more_objects_than_can_be_looked_at_are_refused(graph):
    things = [[] for _ in range(20_001)]
    numbers = [np.zeros(()) for _ in range(20_001)]
    PythonState(lambda: numbers)
    with pytest.raises(NotReplicable, match="more than 20000 objects, such as things"):
        PythonState(lambda: things)
