"""Rendezvous of workers that know their ranks and one address: the first distributes the addresses of all.

    worker r                                    worker 0, at the known address
    handshake, with its port  ----------------> admit, or reject with a reason
                              <---------------- how long it will wait for the others
                              <---------------- the addresses of all, with a proof; or the missing ranks

The handshake is that of the control channel, `tpack.multi_worker.control.handshake`. A peer that disconnects before all
have connected is removed, so that another can take its place. Every wait has a timeout.
"""

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from tpack.errors import ClusterError, ConfigError, PeerLostError
from tpack.multi_worker.cluster.peer_failure import set_exit_code_of_uncaught
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.control.handshake import (
    SECRET_VARIABLE,
    Admission,
    Newcomer,
    NoChallenge,
    Rejected,
    RendezvousOptions,
    connect,
    is_proven,
    present,
    proof,
)
from tpack.multi_worker.control.messages import Channel, Waker, receive_now
from tpack.utils.addresses import join_address

_GRACE_SECS = 5.0
_POLL_SECS = 0.5
# The number that worker 0 sends has no proof yet.
_LONGEST_WAIT_SECS = 86400.0


@dataclass(frozen=True)
class RendezvousResult:
    """Result of a rendezvous.

    Attributes:
        addresses: those of all workers, by rank.
        reservation: that of this worker's port.
    """

    addresses: tuple[str, ...]
    reservation: PortReservation


def meet(options: RendezvousOptions, rank: int) -> RendezvousResult:
    """Wait until all workers have connected; in worker 0, also serve them.

    Raises:
        PeerLostError: Workers are missing; the message names them.
        ClusterError: This one was rejected; or the address is in use, or is not one of this machine, which runs worker
            0. The message says which.
    """
    set_exit_code_of_uncaught(rank)
    if rank:
        return _join(options, rank)
    with _Host(options).open():
        return _join(options, rank)


class _Host:
    """Server of the rendezvous, in worker 0."""

    def __init__(self, options: RendezvousOptions) -> None:
        self._options = options
        self._joined: dict[int, tuple[str, Newcomer]] = {}
        self._deadline = time.monotonic() + options.timeout_secs
        self._selector = selectors.DefaultSelector()
        self._is_over = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """Serve during a block, in a thread; at its end all peers have an answer."""
        with self._selector:
            self._admission = Admission(self._options, self._deadline, self._selector, self._admit)
            self._waker = Waker()
            self._selector.register(self._waker, selectors.EVENT_READ, lambda: None)
            thread = threading.Thread(target=self._serve, name="rendezvous", daemon=True)
            thread.start()
            try:
                yield
            finally:
                self._is_over = True
                self._waker.wake()
                thread.join()
                self._waker.close()

    def _serve(self) -> None:
        try:
            while not self._is_over and time.monotonic() < self._deadline:
                wait_secs = min(self._deadline - time.monotonic(), _POLL_SECS)
                for key, _ in self._selector.select(max(wait_secs, 0.0)):
                    key.data()
                self._admission.check_deadlines(time.monotonic())
        finally:
            self._admission.close()
            self._answer()
            for _, newcomer in self._joined.values():
                newcomer.channel.close()

    def _admit(self, newcomer: Newcomer) -> None:
        rank, hello = newcomer.rank, newcomer.hello
        if hello["for"] != "rendezvous":
            # It has the addresses already, and connects before worker 0 listens for its control channel.
            raise Rejected("again")
        address = join_address(newcomer.peer, hello["port"])
        if rank in self._joined:
            raise Rejected(f"worker {rank} is connected already, from {self._joined[rank][0]}")
        newcomer.channel.send({"waits_secs": max(self._deadline - time.monotonic(), 0.0)})
        newcomer.channel.flush()
        self._joined[rank] = address, newcomer
        self._selector.register(newcomer.channel, selectors.EVENT_READ, partial(self._remove, rank))
        if len(self._joined) == self._options.size:
            self._is_over = True

    def _remove(self, rank: int) -> None:
        """Remove a peer whose connection is readable: it sends nothing, so that the connection has ended."""
        if not self._is_over:
            _, newcomer = self._joined.pop(rank)
            self._selector.unregister(newcomer.channel)
            newcomer.channel.close()

    def _answer(self) -> None:
        """Send all peers the addresses, or the missing ranks."""
        addresses = [address for _, (address, _) in sorted(self._joined.items())]
        open_channels: set[Channel] = set()
        text, ranks = self._missing()
        for _, newcomer in self._joined.values():
            answer: dict[str, object] = {"missing": text, "ranks": ranks}
            if len(addresses) == self._options.size:
                sealed = proof(self._options.secret, "roster", *newcomer.numbers, addresses)
                answer = {"addresses": addresses, "proof": sealed}
            newcomer.channel.send(answer)
            self._selector.modify(newcomer.channel, selectors.EVENT_WRITE, newcomer.channel)
            open_channels.add(newcomer.channel)
        self._selector.unregister(self._waker)
        until = time.monotonic() + _GRACE_SECS
        while open_channels and time.monotonic() < until:
            for key, _ in self._selector.select(until - time.monotonic()):
                with suppress(OSError):
                    key.data.flush()
                    if key.data.has_unsent:
                        continue
                self._selector.unregister(key.data)
                open_channels.remove(key.data)

    def _missing(self) -> tuple[str, list[int]]:
        is_late = time.monotonic() >= self._deadline
        limit = f"did not come within {self._options.timeout_secs:g} s"
        return self._admission.missing(self._joined, limit if is_late else "had not come when worker 0 ended")


def _join(options: RendezvousOptions, rank: int) -> RendezvousResult:
    deadline = time.monotonic() + options.timeout_secs
    while True:
        try:
            return _join_once(options, rank, deadline)
        except NoChallenge as error:
            if time.monotonic() > deadline:
                raise PeerLostError(
                    f"worker {rank} of {options.size} got no answer from worker 0 at {options.master} within "
                    f"{options.timeout_secs:g} s: {error}",
                    (0,),
                ) from error
        time.sleep(_POLL_SECS)


def _join_once(options: RendezvousOptions, rank: int, deadline: float) -> RendezvousResult:
    with connect(options, rank, deadline) as connection:
        reservation = PortReservation(connection.getsockname()[0])
        try:
            return RendezvousResult(_received_addresses(connection, options, rank, reservation.port), reservation)
        except BaseException as error:
            reservation.close()
            if isinstance(error, NoChallenge):
                raise
            if isinstance(error, OSError | ValueError | TypeError | KeyError) and not isinstance(error, ConfigError):
                raise ClusterError(
                    f"worker {rank} has lost worker 0 at {options.master} before all {options.size} had met: {error}"
                ) from error
            raise


def _received_addresses(connection: socket.socket, options: RendezvousOptions, rank: int, port: int) -> tuple[str, ...]:
    answer, number, theirs = present(connection, options, rank, "rendezvous", port=port)
    if "waits_secs" in answer:
        answer = receive_now(connection, min(float(answer["waits_secs"]), _LONGEST_WAIT_SECS) + _GRACE_SECS)
    answered = f"worker {rank} of {options.size} got from worker 0 at {options.master}"
    if "refused" in answer:
        raise ClusterError(f"{answered}: {answer['refused']}")
    if "missing" in answer:
        raise PeerLostError(f"{answered}: {answer['missing']}", tuple(map(int, answer["ranks"])))
    addresses = answer["addresses"]
    if not is_proven(answer["proof"], options.secret, "roster", number, theirs, addresses):
        raise ClusterError(f"the {SECRET_VARIABLE} of the server at {options.master} is not that of worker {rank}")
    return tuple(addresses)
