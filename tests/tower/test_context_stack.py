"""The stack of frames: one for each graph and each thread."""

import threading

import pytest
import tensorflow.compat.v1 as tf

from tpack.tower.context import Frame, TrainTowerContext, current_frame, entered, get_current_tower_context

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
