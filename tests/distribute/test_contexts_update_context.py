"""Which device is updated now."""

import threading

import pytest

from tpack.distribute.contexts import UpdateContext, get_update_device


def test_outside_of_updates_there_is_no_device():
    assert get_update_device() is None


def test_blocks_can_be_nested_and_end_with_an_error():
    outer = UpdateContext("a")
    with outer, UpdateContext("b"):
        assert get_update_device() == "b"
        with outer:
            assert get_update_device() == "a"
        assert get_update_device() == "b"
    with pytest.raises(KeyError), UpdateContext("a"):
        assert get_update_device() == "a"
        raise KeyError
    assert get_update_device() is None


def test_another_thread_updates_nothing():
    seen = []
    with UpdateContext("a"):
        thread = threading.Thread(target=lambda: seen.append(get_update_device()))
        thread.start()
        thread.join()
    assert seen == [None]
