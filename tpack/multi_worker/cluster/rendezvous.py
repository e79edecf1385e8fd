"""Where workers meet that know their number and one address: the first of them gives out the addresses of all.

    worker r                                    worker 0, at the known address
    connect, again and again  ----------------> accept
                              <---------------- challenge: a number used once; whether there is a secret
    join: rank, size, port,   ----------------> compare; refuse, or wait for the others
    proof for the challenge
                              <---------------- roster of all addresses, with a proof; or who is missing

What is said before the roster is `tpack.multi_worker.control.handshake`.

A peer that goes before all have come is taken off the list, so that another may come in its place. A stranger is told
why it is refused and changes nothing. Nothing waits longer than it was told to.
"""

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tpack.errors import ClusterError, ConfigError
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.control.handshake import (
    SECRET_VARIABLE,
    Rejected,
    RendezvousOptions,
    challenge,
    check_newcomer,
    connect,
    is_proven,
    listen,
    present,
    proof,
    receive,
    send,
)
from tpack.utils.net_address import join_address

_GRACE_SECS = 5.0


@dataclass(frozen=True)
class RendezvousResult:
    """What a worker brings home.

    Attributes:
        addresses: those of all workers, by rank.
        reservation: what keeps the port of this one.
    """

    addresses: tuple[str, ...]
    reservation: PortReservation


def meet(point: RendezvousOptions, rank: int) -> RendezvousResult:
    """Wait until all workers have come; in worker 0, also be the one whom they come to.

    Args:
        point: where; the same in all workers.
        rank: the number of this worker.

    Raises:
        ClusterError: Not all came in time, and which; or this one was refused, and why; or the address is in use.
        ConfigError: The address is not one of this machine, which runs worker 0.
    """
    if rank:
        return _join(point, rank)
    host = _Host(point)
    with host.open():
        return _join(point, rank)


# Worker 0, whom all come to.


class _Host:
    """Listens, lets workers in, and tells them all when the last has come or the time is over.

    Args:
        point: where.
    """

    def __init__(self, point: RendezvousOptions) -> None:
        self._point = point
        self._lock = threading.Lock()
        self._joined: dict[int, tuple[str, str]] = {}
        self._refused: list[str] = []
        self._deadline = time.monotonic() + point.timeout_secs
        self._threads: list[threading.Thread] = []
        # The reading end is readable for all threads when the writing end is closed: the meeting is over.
        self._over, self._ends = socket.socketpair()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Listen for the time of a block; at its end everybody has been told."""
        with listen(self._point, self._deadline) as listener:
            acceptor = threading.Thread(target=self._accept, args=(listener,), name="rendezvous", daemon=True)
            acceptor.start()
            try:
                yield
            finally:
                self._finish()
                acceptor.join()
                for thread in self._threads:
                    thread.join(_GRACE_SECS)
                self._over.close()

    def _accept(self, listener: socket.socket) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._over.fileno() in ready:
                return
            with suppress(OSError):
                connection, _ = listener.accept()
                thread = threading.Thread(target=self._serve, args=(connection,), name="rendezvous", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        """Talk to one peer until it is told something, or goes."""
        with connection, suppress(OSError):
            number = challenge(connection, self._point)
            try:
                told = receive(connection)
                rank, address = self._let_in(told, number, connection)
            except (ValueError, TypeError, KeyError) as error:
                self._refuse(connection, f"what it said cannot be read ({error})")
            except Rejected as refusal:
                self._refuse(connection, str(refusal))
            else:
                self._wait_with(connection, rank, address, (str(told["number"]), number))

    def _refuse(self, connection: socket.socket, why: str) -> None:
        with self._lock:
            self._refused.append(f"{connection.getpeername()[0]}: {why}")
        send(connection, {"refused": why})

    def _let_in(self, told: dict[str, Any], number: str, connection: socket.socket) -> tuple[int, str]:
        """Put a peer on the list and return its rank and address, if everything that it says is right."""
        said = check_newcomer(connection, self._point, told, number)
        if said["for"] != "meeting":
            # It was given the addresses already, and comes before worker 0 listens for what it wants now.
            raise Rejected("again")
        rank, address = said["rank"], join_address(connection.getpeername()[0], said["port"])
        with self._lock:
            if rank in self._joined:
                raise Rejected(f"worker {rank} has come already, from {self._joined[rank][0]}")
            self._joined[rank] = (address, number)
            is_complete = len(self._joined) == self._point.size
        if is_complete:
            self._finish()
        return rank, address

    def _wait_with(self, connection: socket.socket, rank: int, address: str, numbers: tuple[str, str]) -> None:
        """Keep a peer that was let in until the meeting is over; forget it if it goes before that."""
        send(connection, {"waits_secs": max(self._deadline - time.monotonic(), 0.0)})
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(max(self._deadline - time.monotonic(), 0.0) * 1000)}
        with self._lock:
            addresses = [self._joined[each][0] for each in sorted(self._joined)]
            is_complete = len(addresses) == self._point.size
            if connection.fileno() in ready and not is_complete:
                # It has nothing to say, so that it has gone.
                self._joined.pop(rank, None)
                return
        if is_complete:
            roster = {"addresses": addresses, "proof": proof(self._point.secret, "roster", *numbers, addresses)}
            send(connection, roster)
        else:
            send(connection, {"missing": self._missing()})

    def _missing(self) -> str:
        with self._lock:
            absent = sorted(set(range(self._point.size)) - self._joined.keys())
            refused = list(dict.fromkeys(self._refused))
        names = ", ".join(map(str, absent[:20])) + (f" and {len(absent) - 20} more" if len(absent) > 20 else "")
        is_late = time.monotonic() >= self._deadline
        limit = f"did not come within {self._point.timeout_secs:g} s" if is_late else "had not come when worker 0 ended"
        text = f"of {self._point.size} workers {len(absent)} {limit}: {names}"
        return f"{text}. Refused were {'; '.join(refused[:10])}" if refused else text

    def _finish(self) -> None:
        """Say that the meeting is over; may be said more than once."""
        self._ends.close()


# Each worker.


def _join(point: RendezvousOptions, rank: int) -> RendezvousResult:
    deadline = time.monotonic() + point.timeout_secs
    with connect(point, rank, deadline) as connection:
        reservation = PortReservation(connection.getsockname()[0])
        try:
            return RendezvousResult(_talk(connection, point, rank, reservation.port), reservation)
        except BaseException as error:
            reservation.close()
            if isinstance(error, OSError | ValueError | TypeError | KeyError) and not isinstance(error, ConfigError):
                raise ClusterError(
                    f"worker {rank} has lost worker 0 at {point.master} before all {point.size} had met: {error}"
                ) from error
            raise


def _talk(connection: socket.socket, point: RendezvousOptions, rank: int, port: int) -> tuple[str, ...]:
    """Join, and return the addresses of all."""
    number, theirs = present(connection, point, rank, "meeting", port=port)
    answer = receive(connection)
    if "waits_secs" in answer:
        connection.settimeout(float(answer["waits_secs"]) + _GRACE_SECS)
        answer = receive(connection)
    for why in ("refused", "missing"):
        if why in answer:
            raise ClusterError(f"worker {rank} of {point.size} is told by worker 0 at {point.master}: {answer[why]}")
    addresses = answer["addresses"]
    if not is_proven(answer["proof"], point.secret, "roster", number, theirs, addresses):
        raise ClusterError(f"the {SECRET_VARIABLE} of who answers at {point.master} is not that of worker {rank}")
    return tuple(addresses)
