"""Workers that meet at one address, in threads: all come, or who is missing is named on all."""

import errno
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tpack.errors import ClusterError, ConfigError, PeerLostError
from tpack.multi_worker.cluster import rendezvous
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.cluster.rendezvous import meet
from tpack.multi_worker.control import handshake
from tpack.multi_worker.control.handshake import RendezvousOptions
from tpack.multi_worker.control.messages import receive_now, send_now

SECRET = "a secret of 24 characters"
LONG = 30.0
# Long enough to come and be refused, however slow the machine is; what is waited for never comes.
SHORT = 3.0


@pytest.fixture
def master():
    """An address at which nobody listens yet."""
    reservation = PortReservation()
    yield f"127.0.0.1:{reservation.port}"
    reservation.close()


def outcome(point, rank):
    """Return the addresses that a worker was given, or the error."""
    try:
        meeting = meet(point, rank)
    except (ClusterError, ConfigError) as error:
        return error
    meeting.reservation.close()
    return meeting.addresses


def outcomes(*workers):
    """Let workers meet at the same time; return what came of each.

    Args:
        *workers: point and rank.
    """
    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(lambda worker: outcome(*worker), workers))


@pytest.mark.parametrize("secret", [None, SECRET])
@pytest.mark.parametrize("size", [1, 2, 9])
def test_all_workers_are_given_the_same_addresses(master, size, secret):
    point = RendezvousOptions(master, size, "job", secret, LONG)
    # The first comes last: who comes earlier tries again.
    found = outcomes(*((point, rank) for rank in reversed(range(size))))
    assert len(found[0]) == len(set(found[0])) == size
    assert found == found[:1] * size


def test_who_is_missing_is_named_on_all(master):
    point = RendezvousOptions(master, 5, timeout_secs=SHORT)
    for error in outcomes((point, 0), (point, 2), (point, 3)):
        assert isinstance(error, PeerLostError)
        assert error.ranks == (1, 4)
        assert "of 5 workers 2 did not come within 3 s: 1, 4" in str(error)


def test_a_missing_worker_0_is_named(master):
    error = outcome(RendezvousOptions(master, 2, timeout_secs=0.2), 1)
    assert error.ranks == (0,)
    assert f"worker 1 of 2 found no server at {master} within 0.2 s: worker 0 is missing" in str(error)


REFUSED = [
    ({"token": "other"}, "it belongs to the job 'other', and worker 0 to 'job': two jobs, one port"),
    ({"size": 3}, "it expects 3 workers, and worker 0 2"),
    ({"secret": SECRET.upper()}, "its TPACK_CLUSTER_SECRET is not that of worker 0"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_a_stranger_is_refused_and_changes_nothing(master, changes, message):
    right = {"master": master, "size": 2, "token": "job", "secret": SECRET, "timeout_secs": LONG}
    is_refused = threading.Event()

    def come_late():
        is_refused.wait(LONG)
        return outcome(RendezvousOptions(**right), 1)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(outcome, RendezvousOptions(**right), 0), pool.submit(come_late)
        refused = outcome(RendezvousOptions(**{**right, **changes}), 1)
        is_refused.set()
        assert f"worker 1 of {changes.get('size', 2)} got from worker 0" in str(refused)
        assert message in str(refused)
        assert len(first.result()) == 2
        assert first.result() == second.result()


def test_whom_the_first_refused_stands_in_its_error(master):
    host = rendezvous._Host(RendezvousOptions(master, 2, "a", timeout_secs=LONG))
    with host.open():
        outcome(RendezvousOptions(master, 2, "b", timeout_secs=LONG), 1)
        text = (
            "of 2 workers 2 had not come when worker 0 ended: 0, 1. Refused were 127.0.0.1: it belongs to the job 'b'"
        )
        assert text in host._missing()[0]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (SECRET, None, "worker 0 has a TPACK_CLUSTER_SECRET and worker 1 has none: expected the same in all"),
        (None, SECRET, "worker 1 has a TPACK_CLUSTER_SECRET and worker 0 has none"),
    ],
)
def test_a_secret_is_for_all_or_none(master, first, second, message):
    with rendezvous._Host(RendezvousOptions(master, 2, "", first, LONG)).open():
        assert message in str(outcome(RendezvousOptions(master, 2, "", second, LONG), 1))


def test_a_worker_that_comes_twice_is_refused_and_the_first_one_stays(master):
    point = RendezvousOptions(master, 3, timeout_secs=LONG)
    with ThreadPoolExecutor(3) as pool:
        twice = [pool.submit(outcome, point, 1) for _ in range(2)]
        first = pool.submit(outcome, point, 0)
        # One of the two is refused while the third worker is still missing.
        refused = next(each for each in map_as_done(twice))
        assert "worker 1 is connected already, from 127.0.0.1:" in str(refused.result())
        third = outcome(point, 2)
        rest = next(each for each in twice if each is not refused)
        assert third == first.result() == rest.result()
        assert len(third) == 3


def map_as_done(futures):
    """Yield futures as they end."""
    is_done = threading.Semaphore(0)
    for future in futures:
        future.add_done_callback(lambda _: is_done.release())
    seen = set()
    while len(seen) < len(futures):
        assert is_done.acquire(timeout=LONG)
        for future in futures:
            if future.done() and future not in seen:
                seen.add(future)
                yield future


def knock(point, rank, port):
    """Ask to be let in by hand; return the connection and the answer."""
    connection = handshake.connect(point, rank, time.monotonic() + LONG)
    connection.settimeout(LONG)
    theirs = handshake._read_challenge(connection, point, rank)
    said = {"for": "rendezvous", "rank": rank, "size": point.size, "token": point.token, "port": port}
    proof = handshake.proof(point.secret, "join", theirs, "x", said)
    send_now(connection, {"said": said, "number": "x", "proof": proof})
    return connection, receive_now(connection, LONG)


def test_a_worker_that_goes_may_come_again(master):
    point = RendezvousOptions(master, 3, timeout_secs=LONG)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(outcome, point, 0)
        connection, answer = knock(point, 1, 7)
        assert answer["waits_secs"] > 0
        connection.close()
        # Refused until the first connection is known to be gone.
        connection, answer = knock(point, 1, 8)
        while "refused" in answer:
            assert "worker 1 is connected already" in answer["refused"]
            connection.close()
            connection, answer = knock(point, 1, 8)
        with connection:
            third = outcome(point, 2)
            assert receive_now(connection, LONG)["addresses"] == list(third) == list(first.result())
        assert third[1] == "127.0.0.1:8"


GARBAGE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\0\0\0\2" + bytes(8) + b"[]",
    b"\0\0\0\2" + bytes(8) + b"{}",
    b"\0\0\0\x0a" + bytes(8) + b'{"said":1}',
    b"\0\0\x10\0" + bytes(8) + b"[" * 4096,
    b"\xff" * 12,
    b"",
]


@pytest.mark.parametrize("data", GARBAGE)
def test_garbage_does_not_disturb_a_meeting(master, data):
    point = RendezvousOptions(master, 2, timeout_secs=LONG)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(outcome, point, 0)
        with handshake.connect(point, 1, time.monotonic() + LONG) as stranger:
            stranger.sendall(data)
            assert outcome(point, 1) == first.result()


def test_a_proof_that_was_overheard_proves_nothing_later(master):
    point = RendezvousOptions(master, 2, "", SECRET, LONG)
    host = rendezvous._Host(point)
    with host.open(), handshake.connect(point, 1, time.monotonic() + LONG) as connection:
        handshake._read_challenge(connection, point, 1)
        said = {"for": "rendezvous", "rank": 1, "size": 2, "token": "", "port": 7}
        overheard = handshake.proof(SECRET, "join", "the number of another challenge", "x", said)
        send_now(connection, {"said": said, "number": "x", "proof": overheard})
        assert "TPACK_CLUSTER_SECRET is not that of worker 0" in receive_now(connection, LONG)["refused"]
        assert host._joined == {}


def serve(listener, *messages):
    """Be a wrong worker 0 for one connection."""
    connection, _ = listener.accept()
    with connection:
        for message in messages:
            if isinstance(message, bytes):
                connection.sendall(message)
            else:
                send_now(connection, message)
        # A worker that refuses a message closes its side, perhaps before the end of it is read.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1024):
                pass


HELLO = {"tpack rendezvous": handshake._PROTOCOL, "number": "n", "has_secret": True}


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "is not worker 0 of a tpack cluster: another program has the port"),
        ([{"hello": 1}], "is not worker 0 of a tpack cluster"),
        ([{**HELLO, "tpack rendezvous": 9}], "worker 0 has version 9 of the protocol, worker 1 5"),
        ([HELLO], "worker 1 has lost worker 0 at .* before all 2 had met"),
        ([HELLO, {"addresses": ["evil:1", "b:1"], "proof": "00"}], "of the server at .* is not that of worker 1"),
        ([HELLO, {"surprise": 1}], "worker 1 has lost worker 0 .*'addresses'"),
        ([HELLO, {"waits_secs": 1e300}], "worker 1 has lost worker 0 .*the connection was closed"),
        ([b"\0\0\x10\1" + bytes(8) + b"[" * 4097], "is not worker 0 of a tpack cluster"),
    ],
)
def test_a_wrong_worker_0_is_known(messages, message):
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve, listener, *messages)
        error = outcome(RendezvousOptions(f"127.0.0.1:{listener.getsockname()[1]}", 2, "", SECRET, LONG), 1)
        served.result()
    with pytest.raises(ClusterError, match=message):
        raise error


def test_a_proxy_before_worker_0_may_listen_earlier_than_it(monkeypatch):
    monkeypatch.setattr(rendezvous, "_POLL_SECS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        point = RendezvousOptions(f"127.0.0.1:{listener.getsockname()[1]}", 2, "", SECRET, LONG)
        joined = pool.submit(outcome, point, 1)
        for _ in range(3):
            listener.accept()[0].close()
        serve(listener, {**HELLO, "tpack rendezvous": 9})
        assert "worker 0 has version 9 of the protocol" in str(joined.result())
        late = pool.submit(outcome, RendezvousOptions(point.master, 2, "", SECRET, 0.2), 1)
        while not late.done():
            listener.settimeout(0.1)
            with suppress(TimeoutError):
                listener.accept()[0].close()
        assert "worker 1 of 2 got no answer from worker 0" in str(late.result())
        assert late.result().ranks == (0,)


def test_peers_of_other_machines_need_a_secret(master, monkeypatch):
    point = RendezvousOptions(master, 2, timeout_secs=LONG)
    with rendezvous._Host(point).open():
        # Each side looks for itself.
        monkeypatch.setattr(handshake, "is_on_this_machine", lambda peer, here: not in_host())
        assert "worker 0 has no TPACK_CLUSTER_SECRET, and this peer is on another" in str(outcome(point, 1))
        monkeypatch.setattr(handshake, "is_on_this_machine", lambda peer, here: in_host())
        assert "worker 1 is not on the machine of worker 0" in str(outcome(point, 1))
    monkeypatch.setattr(handshake, "is_on_this_machine", lambda peer, here: False)
    point = RendezvousOptions(master, 2, "", SECRET, LONG)
    assert len(outcomes((point, 0), (point, 1))[0]) == 2


def in_host():
    """Whether this runs in a thread of worker 0's."""
    return threading.current_thread().name == "rendezvous"


def test_a_port_in_use_and_a_foreign_address_are_told_of():
    with socket.create_server(("127.0.0.1", 0)) as other:
        error = outcome(RendezvousOptions(f"127.0.0.1:{other.getsockname()[1]}", 2), 0)
    assert "worker 0 cannot listen at 127.0.0.1:" in str(error)
    assert "set MASTER_PORT to another one" in str(error)
    assert error.__cause__.errno == errno.EADDRINUSE
    error = outcome(RendezvousOptions("192.0.2.1:5000", 2), 0)
    assert error.__cause__.errno == errno.EADDRNOTAVAIL


def test_an_unknown_name_is_told_of():
    error = outcome(RendezvousOptions("nobody.invalid:5000", 2, timeout_secs=0.1), 1)
    assert "the name 'nobody.invalid' of the machine of worker 0 is not known here" in str(error)


def test_it_listens_at_its_address_only(master):
    point = RendezvousOptions(master, 2, timeout_secs=LONG)
    host = rendezvous._Host(point)
    with host.open(), pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", int(master.split(":")[1])), timeout=10).close()
