"""Keys, limits and addresses of remote data."""

import dataclasses

import pytest

from tpack.dataflow.remote.options import CurveKeys, RemoteOptions, check_address, make_curve_keys
from tpack.errors import ConfigError, WrongTypeError


def test_keys_of_one_end_know_those_of_the_others():
    server, first, second = make_curve_keys(2)
    assert server.peers == (first.public, second.public)
    assert first.peers == second.peers == (server.public,)
    assert len({server.public, first.public, second.public, server.secret, first.secret, second.secret}) == 6


def test_secret_is_not_shown_and_keys_cannot_be_changed():
    keys = make_curve_keys()[0]
    assert keys.secret not in repr(RemoteOptions(keys))
    with pytest.raises(dataclasses.FrozenInstanceError):
        keys.secret = "other"


def test_no_peers_are_refused():
    with pytest.raises(ConfigError, match="make_curve_keys got num_peers=0: expected an integer of at least 1"):
        make_curve_keys(0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"public": "short"}, "CurveKeys got a malformed public key: expected 40 characters"),
        ({"secret": b"x" * 40}, "^CurveKeys got secret="),
        ({"peers": ("x" * 39 + " ",)}, "got a malformed peers key"),
        ({"peers": ()}, r"CurveKeys got peers=\(\): expected a tuple of at least one"),
        ({"peers": "x" * 40}, "CurveKeys got peers=.*: expected a list of text"),
    ],
)
def test_what_is_no_key_is_refused_and_not_shown(changes, message):
    with pytest.raises(ConfigError, match=message):
        CurveKeys(**{**dataclasses.asdict(make_curve_keys()[0]), **changes})


@pytest.mark.parametrize("name", ["max_message_bytes", "max_waiting_bytes", "timeout_secs", "heartbeat_secs"])
def test_numbers_must_be_positive(name):
    with pytest.raises(ConfigError, match=f"RemoteOptions got {name}=0: expected a"):
        RemoteOptions(**{name: 0})
    with pytest.raises(WrongTypeError, match=f"RemoteOptions got {name}='1': expected a"):
        RemoteOptions(**{name: "1"})


@pytest.mark.parametrize(
    ("hwm", "options", "count"),
    [
        (50, RemoteOptions(), 4),
        (2, RemoteOptions(), 2),
        (50, RemoteOptions(max_message_bytes=1 << 20), 50),
        (50, RemoteOptions(max_message_bytes=1 << 40), 1),
        (50, RemoteOptions(max_waiting_bytes=1), 1),
        (50, RemoteOptions(max_message_bytes=1000, max_waiting_bytes=7999), 7),
    ],
)
def test_as_many_points_wait_as_would_fit(hwm, options, count):
    assert options.num_waiting(hwm) == count


def test_other_keys_and_options_are_refused():
    with pytest.raises(WrongTypeError, match="^RemoteOptions got keys="):
        RemoteOptions("secret")
    with pytest.raises(WrongTypeError, match="test got options=5: expected a RemoteOptions"):
        check_address("test", "ipc:///tmp/x", 5)


LOCAL = [
    "tcp://127.0.0.1:5555",
    "tcp://127.8.9.1:*",
    "tcp://localhost:1",
    "tcp://[::1]:5",
    "tcp://lo:5",
    "ipc:///tmp/x",
]
OPEN = [
    *("tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://eth0:5555", "tcp://10.0.0.7:5555", "tcp://[::]:5"),
    *(
        "tcp://127.0.0.1.example.com:5",
        "tcp://example.com:5",
        "tcp://localhost.example.com:5",
        "tcp://127.0.0.1;eth0:5",
    ),
]


@pytest.mark.parametrize("address", LOCAL)
def test_address_within_this_machine_needs_no_keys(address):
    assert check_address("test", address, RemoteOptions()) == address


@pytest.mark.parametrize("address", OPEN)
def test_address_beyond_this_machine_needs_keys(address):
    with pytest.raises(
        ConfigError,
        match=r", which other machines can reach without keys: expected tcp://127\.0\.0\.1:port or ipc://path; use",
    ):
        check_address("test", address, RemoteOptions())
    assert check_address("test", address, RemoteOptions(make_curve_keys()[0])) == address


@pytest.mark.parametrize("address", [None, "", "tcp://127.0.0.1", "inproc://x", "udp://127.0.0.1:5", "127.0.0.1:5555"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ConfigError, match="expected 'tcp://host:port' or 'ipc://path'"):
        check_address("test", address, RemoteOptions(make_curve_keys()[0]))
