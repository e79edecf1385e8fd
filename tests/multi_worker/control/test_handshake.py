"""The handshake, and who is admitted; whole meetings are in ``test_rendezvous.py`` and ``test_server.py``."""

import contextlib
import errno
import resource
import selectors
import socket
import threading
import time

import pytest

from tests.helpers.peer_groups import LONG, joined, member_of, outcome, together
from tpack.errors import ClusterError, ConfigError
from tpack.multi_worker.cluster.peers import connect_peers
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.control import handshake
from tpack.multi_worker.control.handshake import (
    Admission,
    Rejected,
    RendezvousOptions,
    connect,
    is_on_this_machine,
    is_proven,
    present,
    proof,
)
from tpack.multi_worker.control.messages import receive_now, send_now

SECRET = "a secret of 24 characters"


class Server:
    """A server of two workers, and a loop that runs until a condition holds."""

    def __init__(self, point, admit=None):
        self.point = point
        self.admitted = []
        self.selector = selectors.DefaultSelector()
        self.admission = Admission(point, time.monotonic() + LONG, self.selector, admit or self.admit)

    def admit(self, newcomer):
        self.admitted.append(newcomer)
        newcomer.channel.send({"let_in": newcomer.rank})
        newcomer.channel.flush()

    def serve_until(self, condition):
        """Run the loop."""
        deadline = time.monotonic() + LONG
        while not condition():
            assert time.monotonic() < deadline
            for key, _ in self.selector.select(0.05):
                key.data()
            self.admission.check_deadlines(time.monotonic())

    def close(self):
        self.admission.close()
        for newcomer in self.admitted:
            newcomer.channel.close()
        self.selector.close()


@pytest.fixture
def server():
    with PortReservation() as reservation:
        server = Server(RendezvousOptions(f"127.0.0.1:{reservation.port}", 2, "job", SECRET, LONG))
        yield server
        server.close()


def answer_to(server, point=None, rank=1, purpose="worker"):
    """Return the answer to a peer."""
    answers = []

    def ask():
        with connect(server.point, rank, time.monotonic() + LONG) as connection:
            answers.append(present(connection, point or server.point, rank, purpose)[0])

    thread = threading.Thread(target=ask)
    thread.start()
    server.serve_until(lambda: not thread.is_alive())
    return answers[0]


def test_a_worker_of_the_job_is_admitted(server):
    assert answer_to(server) == {"let_in": 1}
    (newcomer,) = server.admitted
    assert newcomer.hello == {"for": "worker", "rank": 1, "size": 2, "token": "job"}
    assert server.admission.refused == []


def test_parameter_servers_come_after_the_workers(server):
    assert answer_to(server, rank=2, purpose="ps") == {"let_in": 2}
    for rank, purpose in ((1, "ps"), (2, "worker"), (-1, "worker")):
        refused = answer_to(server, rank=rank, purpose=purpose)["refused"]
        assert refused == f"its rank is {rank}: expected 0 to 1"
    assert len(server.admission.refused) == 3


def test_an_error_of_the_owner_is_an_answer_and_not_the_end():
    def admit(newcomer):
        raise Rejected("not now") if newcomer.rank else KeyError("port")

    with PortReservation() as reservation:
        server = Server(RendezvousOptions(f"127.0.0.1:{reservation.port}", 2, "job", SECRET, LONG), admit)
        assert answer_to(server, rank=1)["refused"] == "not now"
        assert answer_to(server, rank=0)["refused"] == "its message cannot be read ('port')"
        server.close()


def test_peers_without_proof_are_dropped_after_a_time_and_hold_a_small_message_only(server, monkeypatch):
    monkeypatch.setattr(handshake, "HELLO_SECS", 0.2)
    with socket.create_connection(("127.0.0.1", int(server.point.master.split(":")[1]))) as stranger:
        # Part of a message; each new part does not begin the time again.
        stranger.sendall(b"\0\0\x10\0" + bytes(8) + b"[" * 4000)
        server.serve_until(lambda: bool(server.admission._newcomers))
        (newcomer,) = server.admission._newcomers.values()
        server.serve_until(lambda: len(newcomer.channel._unread) == 4012)
        stranger.sendall(b"[")
        server.serve_until(lambda: not server.admission._newcomers)
        stranger.settimeout(LONG)
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(1000):
                pass
    assert answer_to(server) == {"let_in": 1}


def ports_of(server):
    """Return the ports of the peers without proof."""
    return {channel._connection.getpeername()[1] for channel in server.admission._newcomers}


def test_the_oldest_of_many_strangers_gives_way(server, monkeypatch):
    monkeypatch.setattr(server.admission, "_most_strangers", 4)
    address = ("127.0.0.1", int(server.point.master.split(":")[1]))
    with contextlib.ExitStack() as stack:
        strangers = []
        for _ in range(6):
            strangers.append(stack.enter_context(socket.create_connection(address)))
            newest = strangers[-1].getsockname()[1]
            server.serve_until(lambda newest=newest: newest in ports_of(server))
        assert len(server.admission._newcomers) == 4
        for stranger in strangers[:2]:
            assert receive_now(stranger, LONG)["has_secret"]
            with pytest.raises(OSError, match="closed|reset"):
                receive_now(stranger, LONG)
        assert answer_to(server) == {"let_in": 1}


def test_a_lack_of_descriptors_ends_nothing(server, monkeypatch):
    monkeypatch.setattr(handshake, "_PAUSE_SECS", 0.01)
    accept, failed = server.admission._listener.accept, []

    class Listener:
        """Has no descriptor for the first peer."""

        fileno, close = server.admission._listener.fileno, server.admission._listener.close

        def accept(self):
            if not failed:
                failed.append(True)
                raise OSError(errno.EMFILE, "Too many open files")
            return accept()

    listener, own = Listener(), server.admission._listener
    server.selector.unregister(own)
    server.admission._listener = listener
    server.selector.register(listener, selectors.EVENT_READ, server.admission._accept)
    assert answer_to(server) == {"let_in": 1}
    assert failed


def test_a_lack_of_descriptors_drops_the_oldest_stranger(server, monkeypatch):
    monkeypatch.setattr(handshake, "_PAUSE_SECS", 0.01)
    with socket.create_connection(("127.0.0.1", int(server.point.master.split(":")[1]))) as stranger:
        server.serve_until(lambda: ports_of(server) == {stranger.getsockname()[1]})
        server.admission._pause()
        assert not server.admission._newcomers
        assert receive_now(stranger, LONG)["has_secret"]
        with pytest.raises(OSError, match="closed|reset"):
            receive_now(stranger, LONG)
    assert answer_to(server) == {"let_in": 1}


def test_an_error_while_a_peer_is_accepted_ends_nothing(server, monkeypatch):
    failed = threading.Event()

    def channel(*arguments):
        failed.set()
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(handshake, "Channel", channel)
        with socket.create_connection(("127.0.0.1", int(server.point.master.split(":")[1]))) as stranger:
            server.serve_until(failed.is_set)
            stranger.settimeout(LONG)
            assert stranger.recv(1) == b""
    assert answer_to(server) == {"let_in": 1}


def test_strangers_get_a_share_of_the_descriptors_and_each_reason_is_kept_once(server, monkeypatch):
    assert server.admission._most_strangers <= resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 8 + 4
    other = RendezvousOptions(server.point.master, 3, "job", SECRET, LONG)
    for _ in range(3):
        assert answer_to(server, other)["refused"] == "it expects 3 workers, and worker 0 2"
    assert server.admission.refused == ["127.0.0.1: it expects 3 workers, and worker 0 2"]


def test_the_whole_handshake_has_one_deadline(server, monkeypatch):
    monkeypatch.setattr(handshake, "HELLO_SECS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    with ours, theirs:
        send_now(theirs, {"tpack rendezvous": handshake._PROTOCOL, "number": "n", "has_secret": True})
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            present(ours, server.point, 1, "worker")
        assert time.monotonic() - began < LONG / 2


def test_many_strangers_take_no_threads_and_do_not_disturb_a_training():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
    with joined() as peers, contextlib.ExitStack() as stack:
        num_threads = threading.active_count()
        point = peers[0]._server._options
        host, port = point.master.split(":")
        strangers = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(min(200, most))]
        for stranger in strangers:
            stranger.sendall(b"\0\0\0\x40" + bytes(8) + b"{")
        assert together(peers, lambda one: one.gather("rank", one.rank)) == [[0, 1, 2]] * 3
        assert threading.active_count() == num_threads
        late = outcome(lambda: connect_peers(member_of(point, 1), timeout_secs=LONG))
        assert "worker 1 is connected already" in str(late)


def test_a_proof_is_for_its_words_alone():
    sealed = proof(SECRET, "join", 1, {"a": 2})
    assert is_proven(sealed, SECRET, "join", 1, {"a": 2})
    assert not any(
        is_proven(each, *words)
        for each, words in [
            (sealed, (SECRET, "join", 1, {"a": 3})),
            (sealed, (SECRET.upper(), "join", 1, {"a": 2})),
            (sealed, (None, "join", 1, {"a": 2})),
            (None, (SECRET, "join", 1, {"a": 2})),
            ("", (SECRET, "join", 1, {"a": 2})),
            ("\u00e9\ud800", (SECRET, "join", 1, {"a": 2})),
        ]
    )


def test_the_secret_is_never_sent_and_never_shown():
    point = RendezvousOptions("127.0.0.1:5000", 2, "job", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    with ours, theirs:
        send_now(theirs, {"tpack rendezvous": handshake._PROTOCOL, "number": "n", "has_secret": True})
        send_now(theirs, {"let_in": 1})
        present(ours, point, 1, "worker")
        theirs.settimeout(LONG)
        assert SECRET.encode() not in theirs.recv(10_000)
    assert SECRET not in repr(point)


@pytest.mark.parametrize(
    ("peer", "here", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("::1", "::1", True),
        ("10.0.0.2", "10.0.0.1", False),
    ],
)
def test_the_same_machine_is_known(peer, here, expected):
    assert is_on_this_machine(peer, here) == expected


def test_a_short_secret_is_refused():
    with pytest.raises(
        ConfigError, match="TPACK_CLUSTER_SECRET has 6 characters: expected at least 16, .*openssl rand"
    ):
        RendezvousOptions("a:1", 2, "", "secret")


def test_a_long_token_is_shortened_and_stays_different_from_others():
    one, other = (RendezvousOptions("a:1", 2, "job " * 1000 + end).token for end in "xy")
    assert one != other
    assert one == RendezvousOptions("a:1", 2, "job " * 1000 + "x").token
    assert max(len(one), len(other)) < 300


def test_a_port_in_use_is_an_error(server):
    with (
        selectors.DefaultSelector() as selector,
        pytest.raises(ClusterError, match="worker 0 cannot listen at .* set MASTER_PORT to another one"),
    ):
        Admission(server.point, time.monotonic() + LONG, selector, print)
