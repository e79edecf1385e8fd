"""What is said before a worker is let in; whole meetings are in ``test_rendezvous.py`` and ``test_hub.py``."""

import socket

import pytest

from tpack.errors import ConfigError
from tpack.multi_worker.control.handshake import (
    Rejected,
    RendezvousOptions,
    challenge,
    check_newcomer,
    is_on_this_machine,
    is_proven,
    present,
    proof,
    receive,
    send,
)

SECRET = "a secret of 24 characters"
POINT = RendezvousOptions("127.0.0.1:5000", 2, "job", SECRET)


@pytest.fixture
def ends():
    """Both ends of a connection over the network."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    with ours, theirs:
        for end in (ours, theirs):
            end.settimeout(60)
        yield ours, theirs


def said_by(ends, point=POINT, rank=1, purpose="line"):
    """Return what worker 0 makes of a peer."""
    ours, theirs = ends
    number = challenge(theirs, POINT)
    present(ours, point, rank, purpose)
    return check_newcomer(theirs, POINT, receive(theirs), number)


def test_a_worker_of_the_job_is_let_in(ends):
    assert said_by(ends) == {"for": "line", "rank": 1, "size": 2, "token": "job"}


def test_parameter_servers_come_after_the_workers(ends):
    assert said_by(ends, rank=2, purpose="watch")["rank"] == 2
    for rank, purpose in ((1, "watch"), (2, "line"), (-1, "line")):
        with pytest.raises(Rejected, match=f"its rank is {rank}: expected 0 to 1"):
            said_by(ends, rank=rank, purpose=purpose)


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
        ]
    )


def test_the_secret_is_never_sent_and_never_shown(ends):
    ours, theirs = ends
    challenge(theirs, POINT)
    present(ours, POINT, 1, "line")
    assert SECRET.encode() not in theirs.recv(10_000)
    assert SECRET not in repr(POINT)


def test_messages_are_read_as_they_were_sent(ends):
    ours, theirs = ends
    send(ours, {"a": [1, None]})
    assert receive(theirs) == {"a": [1, None]}
    ours.sendall(b"\0\0\0\2[]")
    with pytest.raises(ValueError, match="a message that is no object"):
        receive(theirs)
    ours.sendall(b"\xff\xff\xff\xff")
    with pytest.raises(ValueError, match="a message of 4294967295 bytes"):
        receive(theirs)
    ours.close()
    with pytest.raises(OSError, match="the connection was closed"):
        receive(theirs)


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
