"""Sockets that carry data points: opened and closed, and who may connect."""

import os
import re
from contextlib import suppress

import psutil
import pytest
import zmq

from tpack.dataflow.remote.options import CurveKeys, RemoteOptions, make_curve_keys
from tpack.dataflow.remote.sockets import Endpoint, drain_events, open_sockets, rejections
from tpack.errors import InputError

PLAIN = RemoteOptions()
SERVER, CLIENT = make_curve_keys()
STRANGER = make_curve_keys()[1]


@pytest.fixture
def address(tmp_path):
    return f"ipc://{tmp_path}/socket"


def pair(address, pull, push):
    """Return an end that binds and one that connects, to be opened."""
    return (
        open_sockets(Endpoint("PULL", address, 5, True, pull)),
        open_sockets(Endpoint("PUSH", address, 5, False, push)),
    )


PAIRS = {"plain": (PLAIN, PLAIN), "keys": (RemoteOptions(SERVER), RemoteOptions(CLIENT))}


@pytest.mark.parametrize("options", PAIRS.values(), ids=PAIRS)
def test_messages_come_through(address, options):
    binding, connecting = pair(address, *options)
    with binding as (pull,), connecting as (push,):
        push.send(b"hello")
        assert pull.poll(5000)
        assert pull.recv() == b"hello"


@pytest.mark.parametrize(
    ("pull", "push"),
    [
        (SERVER, CurveKeys(STRANGER.public, STRANGER.secret, (SERVER.public,))),
        (SERVER, STRANGER),
        (SERVER, None),
        (None, CLIENT),
    ],
    ids=["unknown", "other server", "no keys", "keys for none"],
)
def test_strangers_are_not_let_in(address, pull, push):
    binding, connecting = pair(address, RemoteOptions(pull), RemoteOptions(push))
    with binding as (socket,):
        monitor = socket.get_monitor_socket(sum(rejections(zmq)) | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        with connecting as (push_socket,):
            push_socket.sndtimeo = 10
            with suppress(zmq.Again):
                push_socket.send(b"hello")
            assert monitor.poll(5000)
        assert set(drain_events(zmq, monitor)) <= set(rejections(zmq))
        assert not socket.poll(0)
        socket.disable_monitor()


def test_nothing_is_left_open(address, tmp_path):
    def handles():
        return psutil.Process().num_fds()

    for options in PAIRS.values():
        counts = []
        for _ in range(3):
            binding, connecting = pair(address, *options)
            with pytest.raises(KeyError, match="half way"), binding, connecting:
                raise KeyError("half way")
            counts.append(handles())
        assert counts[1] == counts[2]
    assert os.listdir(tmp_path) == []


def test_address_in_use_is_named():
    with open_sockets(Endpoint("PULL", "tcp://127.0.0.1:*", 5, True, PLAIN)) as (socket,):
        address = socket.last_endpoint.decode()
        with (
            pytest.raises(InputError, match=rf"{re.escape(address)} cannot be bound: Address already in use"),
            open_sockets(Endpoint("PULL", address, 5, True, PLAIN)),
        ):
            pass


def test_address_that_the_library_does_not_take_is_named():
    with (
        pytest.raises(InputError, match="the address ipc://xxx.* cannot be connected to: File name too long"),
        open_sockets(Endpoint("PUSH", "ipc://" + "x" * 300, 5, False, PLAIN)),
    ):
        pass
