"""Addresses, and ports that stay free for those that they were given out to."""

import socket

import pytest

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.ports import PortReservation, is_loopback, join_address, parse_address


def test_a_reserved_port_can_be_listened_at_by_who_knows_it():
    reservation = PortReservation()
    try:
        with socket.create_server(("127.0.0.1", reservation.port)) as server:
            socket.create_connection(server.getsockname(), timeout=10).close()
        # Once more, as after a restart.
        with socket.create_server(("127.0.0.1", reservation.port)) as again:
            assert again.getsockname()[1] == reservation.port
    finally:
        reservation.close()


def test_a_reserved_port_is_given_to_nobody_else():
    first, others = PortReservation(), []
    try:
        others = [PortReservation() for _ in range(200)]
        assert len({first.port, *(other.port for other in others)}) == 201
    finally:
        for each in (first, *others):
            each.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_a_reserved_port_is_given_to_nobody_on_any_interface(address):
    reservation, others = PortReservation(), []
    try:
        for _ in range(200):
            others.append(socket.socket())
            others[-1].bind((address, 0))
        assert reservation.port not in {other.getsockname()[1] for other in others}
        with socket.socket() as taken, pytest.raises(OSError, match="in use"):
            # Who does not say that it may be shared does not get it either.
            taken.bind((address, reservation.port))
        with socket.create_server(("", reservation.port)) as server:
            socket.create_connection((address, server.getsockname()[1]), timeout=10).close()
    finally:
        for each in (reservation, *others):
            each.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a:1", ("a", 1)), ("[::1]:65535", ("::1", 65535)), ("n1.example.org:80", ("n1.example.org", 80))],
)
def test_an_address_is_read_and_written(text, expected):
    assert parse_address(text, "it") == expected
    assert join_address(*expected) == text


@pytest.mark.parametrize(
    "address", ["a", ":1", "a:", "a:0", "a:65536", "a:+1", "a b:1", "::1:1", "a,b:1", "http://a:1", "[a]:1", 7]
)
def test_what_is_no_address_is_shown(address):
    with pytest.raises(ConfigError, match="the field is .*: expected an address such as node1:5000"):
        parse_address(address, "the field")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_loopback_is_known(host, expected):
    assert is_loopback(host) == expected
