"""Where code of loops, conditions and functions belongs to."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.tower.context import TrainTowerContext, get_current_tower_context, is_in_control_flow
from tpack.tower.per_graph import built_graph


def look(seen, result):
    seen.append((built_graph(), is_in_control_flow(), get_current_tower_context()))
    return result


KINDS = {
    "cond": lambda seen: tf.cond(tf.constant(True), lambda: look(seen, 1), lambda: look(seen, 2)),
    "while": lambda seen: tf.while_loop(lambda i: i < 3, lambda i: look(seen, i + 1), [0]),
    "map": lambda seen: tf.map_fn(lambda i: look(seen, i), tf.range(3)),
    "nested": lambda seen: tf.map_fn(lambda i: tf.cond(i > 0, lambda: look(seen, i), lambda: i), tf.range(3)),
    "function": lambda seen: tf.function(lambda: look(seen, tf.constant(1)))(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_code_inside_belongs_to_the_tower_around_it(graph, kind):
    seen = []
    with TrainTowerContext("tower0") as tower:
        KINDS[kind](seen)
        assert look(seen, None) is None
    *inside, outside = seen
    assert inside
    assert all(entry == (graph, True, tower) for entry in inside)
    assert outside == (graph, False, tower)


def test_loops_of_tensorflow_1_are_control_flow(graph):
    seen = []
    tf.disable_control_flow_v2()
    try:
        KINDS["while"](seen)
    finally:
        tf.enable_control_flow_v2()
    assert seen == [(graph, True, None)]
