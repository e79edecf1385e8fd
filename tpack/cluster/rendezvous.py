"""Where workers meet that know their number and one address: the first of them gives out the addresses of all.

    worker r                                    worker 0, at the known address
    connect, again and again  ----------------> accept
                              <---------------- challenge: a number used once; whether there is a secret
    join: rank, size, port,   ----------------> compare; refuse, or wait for the others
    proof for the challenge
                              <---------------- roster of all addresses, with a proof; or who is missing

A proof is an HMAC of what is said and of both sides' numbers, by the secret that all share (``TPACK_CLUSTER_SECRET``).
The secret itself is never sent, and an old message proves nothing. Without a secret only peers on the same machine are
let in. Nothing is encrypted: the addresses of workers can be read by who reads the network.

A peer that goes before all have come is taken off the list, so that another may come in its place. A stranger is told
why it is refused and changes nothing. Nothing waits longer than it was told to.
"""

import hashlib
import hmac
import json
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tpack.cluster.ports import PortReservation, is_loopback, join_address, parse_address
from tpack.errors import ClusterError, ConfigError

SECRET_VARIABLE = "TPACK_CLUSTER_SECRET"
SHORTEST_SECRET = 16

_PROTOCOL = 1
_HELLO_SECS = 10.0
_GRACE_SECS = 5.0
_RETRY_SECS = (0.02, 0.5)
_LONGEST_MESSAGE = 1 << 24


@dataclass(frozen=True)
class MeetingPoint:
    """Where, for how long and by which secret workers meet.

    Attributes:
        master: the address at which the first worker listens.
        size: how many are to come.
        token: what sets the job apart.
        secret: what all share; None lets only processes of one machine meet.
        timeout_secs: how long each waits for the others.

    Raises:
        ConfigError: The secret is too short.
    """

    master: str
    size: int
    token: str = ""
    secret: str | None = None
    timeout_secs: float = 300.0

    def __post_init__(self) -> None:
        if self.secret is not None and len(self.secret) < SHORTEST_SECRET:
            raise ConfigError(
                f"{SECRET_VARIABLE} has {len(self.secret)} characters: wanted at least {SHORTEST_SECRET}, such as what "
                "`openssl rand -hex 32` prints"
            )


@dataclass(frozen=True)
class Meeting:
    """What a worker brings home.

    Attributes:
        addresses: those of all workers, by rank.
        reservation: what keeps the port of this one.
    """

    addresses: tuple[str, ...]
    reservation: PortReservation


def meet(point: MeetingPoint, rank: int) -> Meeting:
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


# What is sent.


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    connection.sendall(struct.pack(">I", len(data)) + data)


def _receive(connection: socket.socket) -> dict[str, Any]:
    """Return the next message; an error of connections or values if there is none."""
    (size,) = struct.unpack(">I", _read(connection, 4))
    if size > _LONGEST_MESSAGE:
        raise ValueError(f"a message of {size} bytes")
    message = json.loads(_read(connection, size))
    if not isinstance(message, dict):
        raise ValueError("a message that is no object")
    return message


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError("the connection was closed")
        data += part
    return bytes(data)


def _proof(secret: str | None, *said: object) -> str:
    text = json.dumps(said, sort_keys=True).encode()
    return hmac.new((secret or "").encode(), text, hashlib.sha256).hexdigest()


def is_on_this_machine(peer: str, here: str) -> bool:
    """Tell whether the other end of a connection is on the same machine.

    Args:
        peer: the address of the other end, in numbers.
        here: the address of this end.
    """
    return peer == here or is_loopback(peer)


# Worker 0, whom all come to.


class _Host:
    """Listens, lets workers in, and tells them all when the last has come or the time is over.

    Args:
        point: where.
    """

    def __init__(self, point: MeetingPoint) -> None:
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
        with self._listen() as listener:
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

    def _listen(self) -> socket.socket:
        host, port = parse_address(self._point.master, "the rendezvous' address")
        found = _resolve(host, port, self._deadline)
        listener = socket.socket(found[0], socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            # On one interface, never on all of them.
            listener.bind(found[1])
            listener.listen(1024)
        except OSError as error:
            listener.close()
            raise ClusterError(
                f"worker 0 cannot listen at {self._point.master} ({found[1][0]}), as MASTER_ADDR and MASTER_PORT or "
                f"the launcher say: {error.strerror}. Wanted an address of this machine, {socket.gethostname()}, and a "
                "port that no other program or job uses; set MASTER_PORT to another one"
            ) from error
        return listener

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
            connection.settimeout(_HELLO_SECS)
            number = secrets.token_hex(16)
            greeting = {"tpack rendezvous": _PROTOCOL, "number": number, "has_secret": self._point.secret is not None}
            _send(connection, greeting)
            try:
                told = _receive(connection)
                rank, address = self._let_in(told, number, connection)
            except (ValueError, TypeError, KeyError) as error:
                self._refuse(connection, f"what it said cannot be read ({error})")
            except _Refusal as refusal:
                self._refuse(connection, str(refusal))
            else:
                self._wait_with(connection, rank, address, (str(told["number"]), number))

    def _refuse(self, connection: socket.socket, why: str) -> None:
        with self._lock:
            self._refused.append(f"{connection.getpeername()[0]}: {why}")
        _send(connection, {"refused": why})

    def _let_in(self, told: dict[str, Any], number: str, connection: socket.socket) -> tuple[int, str]:
        """Put a peer on the list and return its rank and address, if everything that it says is right."""
        point, said = self._point, told["said"]
        peer, here = connection.getpeername()[0], connection.getsockname()[0]
        if point.secret is None and not is_on_this_machine(peer, here):
            raise _Refusal(
                f"worker 0 has no {SECRET_VARIABLE}, and this peer is on another machine: set the same in all"
            )
        if not hmac.compare_digest(str(told["proof"]), _proof(point.secret, "join", number, told["number"], said)):
            raise _Refusal(f"its {SECRET_VARIABLE} is not that of worker 0")
        if said["token"] != point.token:
            raise _Refusal(
                f"it belongs to the job {said['token']!r}, and worker 0 to {point.token!r}: two jobs, one port"
            )
        if said["size"] != point.size:
            raise _Refusal(f"it was told of {said['size']} workers, and worker 0 of {point.size}")
        rank, address = said["rank"], join_address(peer, said["port"])
        if rank not in range(point.size):
            raise _Refusal(f"its rank is {rank!r}: wanted 0 to {point.size - 1}")
        with self._lock:
            if rank in self._joined:
                raise _Refusal(f"worker {rank} has come already, from {self._joined[rank][0]}")
            self._joined[rank] = (address, number)
            is_complete = len(self._joined) == point.size
        if is_complete:
            self._finish()
        return rank, address

    def _wait_with(self, connection: socket.socket, rank: int, address: str, numbers: tuple[str, str]) -> None:
        """Keep a peer that was let in until the meeting is over; forget it if it goes before that."""
        _send(connection, {"waits_secs": max(self._deadline - time.monotonic(), 0.0)})
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
            roster = {"addresses": addresses, "proof": _proof(self._point.secret, "roster", *numbers, addresses)}
            _send(connection, roster)
        else:
            _send(connection, {"missing": self._missing()})

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


class _Refusal(Exception):
    """Why a peer is not let in."""


# Each worker.


def _join(point: MeetingPoint, rank: int) -> Meeting:
    deadline = time.monotonic() + point.timeout_secs
    with _connect(point, rank, deadline) as connection:
        reservation = PortReservation(connection.getsockname()[0])
        try:
            return Meeting(_talk(connection, point, rank, reservation.port), reservation)
        except BaseException as error:
            reservation.close()
            if isinstance(error, OSError | ValueError | TypeError | KeyError) and not isinstance(error, ConfigError):
                raise ClusterError(
                    f"worker {rank} has lost worker 0 at {point.master} before all {point.size} had met: {error}"
                ) from error
            raise


def _talk(connection: socket.socket, point: MeetingPoint, rank: int, port: int) -> tuple[str, ...]:
    """Join, and return the addresses of all."""
    connection.settimeout(_HELLO_SECS)
    theirs = _greeting(connection, point, rank)
    number = secrets.token_hex(16)
    said = {"rank": rank, "size": point.size, "token": point.token, "port": port}
    _send(connection, {"said": said, "number": number, "proof": _proof(point.secret, "join", theirs, number, said)})
    answer = _receive(connection)
    if "waits_secs" in answer:
        connection.settimeout(float(answer["waits_secs"]) + _GRACE_SECS)
        answer = _receive(connection)
    for why in ("refused", "missing"):
        if why in answer:
            raise ClusterError(f"worker {rank} of {point.size} is told by worker 0 at {point.master}: {answer[why]}")
    addresses = answer["addresses"]
    if not hmac.compare_digest(str(answer["proof"]), _proof(point.secret, "roster", number, theirs, addresses)):
        raise ClusterError(f"the {SECRET_VARIABLE} of who answers at {point.master} is not that of worker {rank}")
    return tuple(addresses)


def _greeting(connection: socket.socket, point: MeetingPoint, rank: int) -> str:
    """Return the number of the challenge."""
    try:
        greeting = _receive(connection)
        protocol, number, has_secret = greeting["tpack rendezvous"], greeting["number"], greeting["has_secret"]
    except (ValueError, KeyError, TimeoutError) as error:
        raise ClusterError(
            f"what listens at {point.master} is not worker 0 of a tpack cluster: another program has the port"
        ) from error
    if protocol != _PROTOCOL:
        raise ClusterError(f"worker 0 speaks version {protocol!r} of the rendezvous, worker {rank} {_PROTOCOL}")
    peer, here = connection.getpeername()[0], connection.getsockname()[0]
    if has_secret != (point.secret is not None):
        who, other = ("worker 0", f"worker {rank}") if has_secret else (f"worker {rank}", "worker 0")
        raise ClusterError(f"{who} has a {SECRET_VARIABLE} and {other} has none: wanted the same in all")
    if point.secret is None and not is_on_this_machine(peer, here):
        raise ClusterError(
            f"worker {rank} is not on the machine of worker 0, {point.master}, and there is no {SECRET_VARIABLE}: set "
            "the same in all workers, such as what `openssl rand -hex 32` prints"
        )
    return str(number)


def _connect(point: MeetingPoint, rank: int, deadline: float) -> socket.socket:
    """Connect to worker 0, which may not listen yet."""
    host, port = parse_address(point.master, "the rendezvous' address")
    pause = _RETRY_SECS[0]
    while True:
        _, address = _resolve(host, port, deadline)
        try:
            return socket.create_connection(address[:2], timeout=max(deadline - time.monotonic(), 0.01))
        except OSError as error:
            if time.monotonic() + pause > deadline:
                raise ClusterError(
                    f"worker {rank} of {point.size} found nobody at {point.master} within {point.timeout_secs:g} s: "
                    f"worker 0 is missing ({error})"
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, _RETRY_SECS[1])


def _resolve(host: str, port: int, deadline: float) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """Look a name up, which a cluster's name server may not know at once."""
    while True:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            return family, address
        except OSError as error:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the name {host!r} of the machine of worker 0 is not known here: {error}"
                ) from error
        time.sleep(_RETRY_SECS[1])
