"""Ports that stay reserved for the processes that know them."""

import socket

import pytest

from tpack.multi_worker.cluster.ports import PortReservation


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
