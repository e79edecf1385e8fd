"""Data points from another thread over real sockets: what comes, what is refused, and how waiting ends."""

import pickle
import re
import threading
from contextlib import contextmanager
from itertools import islice

import numpy as np
import pytest
import zmq

from tpack.dataflow.base import DataFlow, DataFlowTerminated
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.remote import flow as flow_module
from tpack.dataflow.remote.flow import RemoteDataZMQ, send_dataflow_zmq
from tpack.dataflow.remote.options import RemoteOptions, make_curve_keys
from tpack.dataflow.sources import DataFromGenerator, DataFromList
from tpack.errors import ConfigError, DataExhaustedError, DataPointError, InputError
from tpack.utils import serialize


@pytest.fixture
def address(tmp_path):
    return f"ipc://{tmp_path}/socket"


class Endless(DataFlow):
    """Yield numbered points until told to stop."""

    class Stopped(Exception):
        """The test is over."""

    def __init__(self, name="a"):
        self.name = name
        self.is_stopped = threading.Event()

    def __iter__(self):
        number = 0
        while not self.is_stopped.is_set():
            yield [self.name, number, np.full((2, 3), number, np.float32)]
            number += 1
        raise self.Stopped


@contextmanager
def sending(address, name="a", **kwargs):
    """Send from a thread during the block."""
    flow = Endless(name)
    errors = []

    def run():
        try:
            send_dataflow_zmq(flow, address, **kwargs)
        except (Endless.Stopped, DataFlowTerminated) as error:
            errors.append(error)

    options = kwargs.pop("options", RemoteOptions())
    kwargs["options"] = RemoteOptions(keys=options.keys, timeout_secs=1.0)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield flow
    finally:
        flow.is_stopped.set()
        thread.join()
    assert errors


def take(points, count):
    return list(islice(points, count))


def ready(*args, **kwargs):
    ds = RemoteDataZMQ(*args, **kwargs)
    ds.reset_state()
    return ds


@pytest.mark.parametrize("binds_receiver", [True, False])
def test_points_come_in_their_order(address, binds_receiver):
    with sending(address, hwm=2, bind=not binds_receiver):
        ds = ready(address, hwm=2, bind=binds_receiver)
        points = iter(ds)
        found = take(points, 100)
        points.close()
    assert [number for _, number, _ in found] == list(range(found[0][1], found[0][1] + 100))
    np.testing.assert_array_equal(found[7][2], np.full((2, 3), found[7][1]))
    assert found[7][2].dtype == np.float32
    assert ds.stats.num_points >= 100


def test_points_come_over_tcp_with_keys():
    server, client = make_curve_keys()
    with zmq.Context() as context, context.socket(zmq.PULL) as probe:
        port = probe.bind_to_random_port("tcp://127.0.0.1")
    with sending(f"tcp://127.0.0.1:{port}", options=RemoteOptions(client)):
        points = iter(ready(f"tcp://*:{port}", options=RemoteOptions(server)))
        assert len(take(points, 20)) == 20
        points.close()


def test_points_of_two_senders_at_two_addresses_come_mixed(address):
    with sending(address + "1", "a"), sending(address + "2", "b"):
        points = iter(ready(address + "1", address + "2", hwm=3))
        names = set()
        while names != {"a", "b"}:
            names.add(next(points)[0])
        points.close()
    assert names == {"a", "b"}


def test_sockets_are_opened_anew_by_each_iteration(address):
    with sending(address):
        ds = ready(address)
        for _ in range(3):
            points = iter(ds)
            assert len(take(points, 5)) == 5
            points.close()


@contextmanager
def raw_sender(address):
    """Give a function that sends bytes as they are."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.linger = 0
        socket.connect(address)
        yield socket.send


def test_malformed_messages_are_refused_and_counted(address, capsys):
    ds = ready(address)
    points = iter(ds)
    with raw_sender(address) as send:
        for message in (b"", b"\xc1", pickle.dumps(np.mean), serialize.dumps(3), serialize.dumps("text")):
            send(message)
        for number in range(20):
            send(serialize.dumps([np.zeros(2), number])[:-1])
        send(serialize.dumps([1, 2]))
        send(serialize.dumps({"a": 3}))
        assert take(points, 2) == [[1, 2], {"a": 3}]
    assert (ds.stats.num_malformed, ds.stats.num_points) == (25, 2)
    points.close()
    text = capsys.readouterr().err
    assert "refused a message, the 1. of them: 0 bytes are damaged" in text
    assert "the 4. of them: it holds a int: expected a list or a dict" in text
    assert "the 11. of them" not in text


def test_oversized_messages_are_refused_and_counted(address):
    ds = ready(address, options=RemoteOptions(max_message_bytes=1000))
    points = iter(ds)
    with raw_sender(address) as send:
        send(serialize.dumps([bytes(1500)]))
        send(serialize.dumps([1]))
        assert take(points, 1) == [[1]]
        assert ds.stats.num_oversized == 1
        # This one ends the connection before it is received; the next comes over a new one.
        send(serialize.dumps([bytes(100_000)]))
        for number in range(1000):
            send(serialize.dumps([number]))
        assert take(points, 1)
    assert ds.stats.num_disconnects == 1
    assert ds.stats.num_oversized == 1
    points.close()


def test_peer_that_goes_away_is_counted_and_named(address, capsys):
    ds = ready(address, options=RemoteOptions(timeout_secs=0.5))
    points = iter(ds)
    with raw_sender(address) as send:
        send(serialize.dumps([1]))
        assert next(points) == [1]
    with pytest.raises(DataFlowTerminated, match=r"no data point for 0\.5 seconds from 0 connected peers"):
        next(points)
    assert (ds.stats.num_connects, ds.stats.num_disconnects) == (1, 1)
    assert "the last of its 1 peers has disconnected" in capsys.readouterr().err


def test_long_wait_is_told_and_goes_on(address, log_dir, monkeypatch):
    monkeypatch.setattr(flow_module, "_WARN_SECS", 0.05)
    points = iter(ready(address))
    with raw_sender(address) as send:
        sending = threading.Thread(
            target=_send_when_told, args=(log_dir / "log.log", lambda: send(serialize.dumps([1])))
        )
        sending.start()
        assert next(points) == [1]
        sending.join()
    assert re.search(r"RemoteDataZMQ\(.*\) got no data point for \d+ seconds", (log_dir / "log.log").read_text())


def _send_when_told(log, send):
    """Send when the log says that this is waited for."""
    while "got no data point" not in log.read_text():
        pass
    send()


def test_peer_puts_no_more_bytes_into_the_receiver_than_allowed(address):
    options = RemoteOptions(max_message_bytes=1 << 20, max_waiting_bytes=3 << 20)
    points, sent = iter(ready(address, options=options)), 0
    message = serialize.dumps([bytes(1_000_000)])
    context = zmq.Context()
    socket = context.socket(zmq.PUSH)
    try:
        socket.set_hwm(1)
        socket.sndtimeo = 300
        socket.connect(address)
        socket.send(serialize.dumps([0]))
        assert next(points) == [0]
        with pytest.raises(zmq.Again):
            while sent < 50:
                socket.send(message)
                sent += 1
    finally:
        context.destroy(linger=0)
    # Three that wait, one on its way in, and what the sender and the system keep.
    assert sent < 10
    points.close()


def test_stranger_is_counted(address):
    server, _ = make_curve_keys()
    ds = ready(address, options=RemoteOptions(server, timeout_secs=0.5))
    with raw_sender(address), pytest.raises(DataFlowTerminated, match="from 0 connected peers"):
        next(iter(ds))
    assert ds.stats.num_rejected >= 1
    assert ds.stats.num_connects == 0


def test_waiting_can_be_interrupted_from_another_thread(address):
    ds = ready(address)
    points = iter(ds)
    with raw_sender(address) as send:
        send(serialize.dumps([1]))
        next(points)
    timer = threading.Timer(0.05, ds.interrupt)
    timer.start()
    with pytest.raises(DataFlowTerminated, match=r"was interrupted: use reset_state\(\) to iterate it again"):
        next(points)
    timer.join()
    ds.reset_state()
    with raw_sender(address) as send:
        send(serialize.dumps([2]))
        assert take(ds, 1) == [[2]]


def test_flow_can_be_pickled_and_has_no_position(address):
    ds = pickle.loads(pickle.dumps(RemoteDataZMQ(address)))
    with pytest.raises(StatelessError, match="RemoteDataZMQ cannot tell its position"):
        ds.state_dict()


def test_sender_repeats_the_flow_and_ends_with_its_error(address):
    passes = []

    def generate():
        passes.append(1)
        if len(passes) == 3:
            raise KeyError("the disk is gone")
        yield from [[1], [2]]

    points = iter(ready(address))
    with raw_sender(address) as send:
        send(serialize.dumps([0]))
        assert next(points) == [0]
    with pytest.raises(KeyError, match="the disk is gone"):
        send_dataflow_zmq(DataFromGenerator(generate), address)
    points.close()


def test_sender_without_a_taker_ends_after_its_time_limit(address):
    flow = DataFromList([[1]])
    with pytest.raises(DataFlowTerminated, match=r"no peer at .*socket took data point 0 for 0\.1 seconds"):
        send_dataflow_zmq(flow, address, bind=True, options=RemoteOptions(timeout_secs=0.1))


@pytest.mark.parametrize(
    ("flow", "error", "message"),
    [
        (DataFromList([[object()]]), DataPointError, "cannot be serialized"),
        (DataFromList([[bytes(2000)]]), DataPointError, "point 0 makes a message of 2004 bytes: expected at most"),
        (DataFromList([]), DataExhaustedError, "yielded nothing"),
    ],
)
def test_sender_names_what_it_cannot_send(address, flow, error, message):
    with pytest.raises(error, match=message):
        send_dataflow_zmq(flow, address, bind=True, options=RemoteOptions(max_message_bytes=1000))


def test_bad_arguments_are_refused(address):
    with pytest.raises(ConfigError, match="RemoteDataZMQ got addr2='tcp://0.0.0.0:1', which other machines"):
        RemoteDataZMQ(address, "tcp://0.0.0.0:1")
    with pytest.raises(ConfigError, match=r"send_dataflow_zmq got addr='tcp://\*:1', which other machines"):
        send_dataflow_zmq(DataFromList([[1]]), "tcp://*:1", bind=True)
    with pytest.raises(ConfigError, match="RemoteDataZMQ got hwm=0"):
        RemoteDataZMQ(address, hwm=0)
    with pytest.raises(ConfigError, match="send_dataflow_zmq got format='zmq_ops': expected None"):
        send_dataflow_zmq(DataFromList([[1]]), address, format="zmq_ops")


def test_address_that_cannot_be_bound_is_named():
    with pytest.raises(InputError, match="the address ipc:///none/such cannot be bound"):
        next(iter(ready("ipc:///none/such")))
