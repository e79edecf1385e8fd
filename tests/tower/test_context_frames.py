"""Where code is: frames, one stack for each graph and each thread, in loops and functions too."""

import threading

import pytest
import tensorflow.compat.v1 as tf

from tpack.tower.context import (
    Frame,
    TrainTowerContext,
    current_frame,
    entered,
    get_current_tower_context,
    is_in_control_flow,
)
from tpack.tower.per_graph import built_graph

OUTSIDE = Frame()
ACROSS = Frame(strategy="a strategy")


def test_frames_belong_to_the_default_graph(graph):
    with entered(ACROSS):
        with tf.Graph().as_default(), entered(Frame(update_device="d")):
            assert current_frame() == Frame(update_device="d")
        assert current_frame() is ACROSS
        with tf.Graph().as_default():
            assert current_frame() == OUTSIDE


def test_frames_belong_to_the_thread(graph):
    seen = []

    def look():
        with graph.as_default():
            seen.append(current_frame())
            with entered(Frame(update_device="there")):
                seen.append(current_frame())

    with entered(ACROSS):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert current_frame() is ACROSS
    assert seen == [OUTSIDE, Frame(update_device="there")]


def test_a_frame_ends_with_an_error(graph):
    with pytest.raises(KeyError), entered(ACROSS):
        raise KeyError
    assert current_frame() == OUTSIDE


def test_a_frame_says_where_it_is(graph):
    tower = TrainTowerContext("")
    frames = [OUTSIDE, Frame(update_device="d"), ACROSS, Frame(tower_context="a tower"), Frame(tower)]
    assert [frame.is_outside for frame in frames] == [True, True, False, False, False]
    assert [frame.is_in_tower for frame in frames] == [False, False, False, True, True]


def test_an_update_goes_on_in_the_blocks_that_are_opened_in_it(graph):
    tower = TrainTowerContext("tower0")
    with entered(Frame(update_device="d", meet=lambda index, call: None)):
        assert current_frame().inside(strategy="a strategy") == Frame(strategy="a strategy", update_device="d")
        with tower:
            assert (current_frame().tower, current_frame().update_device) == (tower, "d")


def test_whoever_leaves_a_tower_is_where_it_was_entered(graph):
    tower = TrainTowerContext("tower0")
    with entered(ACROSS), tower, entered(Frame(tower, update_device="d")):
        with tower.left():
            assert current_frame() == Frame(strategy="a strategy", update_device="d")
        assert get_current_tower_context() is tower


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
