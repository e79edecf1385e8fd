"""Data points from another thread over real sockets into the graph."""

import threading
from contextlib import contextmanager

import numpy as np
import psutil
import pytest
import tensorflow.compat.v1 as tf
import zmq

from tests.helpers.run_input import SIGNATURE, running
from tpack.dataflow import BatchData, RemoteDataZMQ, RemoteOptions
from tpack.errors import ConfigError, InputError
from tpack.input_source import QueueInput, ZMQInput
from tpack.utils import serialize


@pytest.fixture
def address(tmp_path):
    return f"ipc://{tmp_path}/socket"


@contextmanager
def sender(address):
    """Give a function that sends a data point."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.linger = 0
        socket.connect(address)
        yield lambda point: socket.send(serialize.dumps(point))


def point(number):
    return [np.full([3, 2], number, np.float32), number]


def test_steps_get_what_is_sent(graph, address):
    with sender(address) as send:
        for number in range(6):
            send(point(number))
        with running(ZMQInput(address, hwm=10), num_towers=2) as run:
            assert run.labels(3) == list(range(6))


@pytest.mark.parametrize(
    "make", [ZMQInput, lambda address: QueueInput(BatchData(RemoteDataZMQ(address), 2))], ids=["itself", "wrapped"]
)
def test_training_ends_while_no_data_comes(graph, address, make):
    before = psutil.Process().num_fds()
    signature = SIGNATURE
    if make is not ZMQInput:
        signature = [tf.TensorSpec([None, 3, 2], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]
    with sender(address) as send, running(make(address), signature) as run:
        for number in range(2):
            send(point(number))
        run.step()
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if "Input" in name]
    assert psutil.Process().num_fds() <= before + 2


def test_peer_that_stays_away_ends_the_step(graph, address):
    with (
        pytest.raises(InputError, match="RemoteDataZMQ.* got no data point for 0.2 seconds"),
        running(ZMQInput(address, options=RemoteOptions(timeout_secs=0.2))) as run,
    ):
        run.step()


def test_address_beyond_this_machine_is_refused():
    with pytest.raises(ConfigError, match=r"got end_point='tcp://0.0.0.0:5555', which other machines can reach"):
        ZMQInput("tcp://0.0.0.0:5555")
