"""How workers that share one address speak to worker 0: what is sent, and how both sides know whom they speak to.

    worker r                                    worker 0, at the known address
    connect, again and again  ----------------> accept
                              <---------------- challenge: a number used once; whether there is a secret
    said: rank, size, ...,    ----------------> compare; refuse and say why, or let in
    proof for the challenge
                              <---------------- answer, with a proof for the number of worker r

A proof is an HMAC of what is said and of both sides' numbers, by the secret that all share (``TPACK_CLUSTER_SECRET``).
The secret itself is never sent, and an old message proves nothing. Without a secret only peers on the same machine are
let in. Nothing is encrypted: what workers say can be read by who reads the network.

The same address serves twice: first workers meet there (`tpack.multi_worker.cluster.rendezvous`), then their own line to worker 0
begins there (`tpack.multi_worker.cluster.peers`). What a worker has come for is a part of what it says; for a line, also which one
it has closed, so that a process that comes for its next training is told apart from a second one with the same rank.
"""

import hashlib
import hmac
import json
import secrets
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

from tpack.errors import ClusterError, ConfigError
from tpack.utils.net_address import is_loopback, parse_address

SECRET_VARIABLE = "TPACK_CLUSTER_SECRET"
SHORTEST_SECRET = 16

HELLO_SECS = 10.0
"""How long the other side may take to say the next thing."""

_PROTOCOL = 2
_RETRY_SECS = (0.02, 0.5)
_LONGEST_MESSAGE = 1 << 24


@dataclass(frozen=True)
class RendezvousOptions:
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
    secret: str | None = field(default=None, repr=False)
    timeout_secs: float = 300.0

    def __post_init__(self) -> None:
        if self.secret is not None and len(self.secret) < SHORTEST_SECRET:
            raise ConfigError(
                f"{SECRET_VARIABLE} has {len(self.secret)} characters: expected at least {SHORTEST_SECRET}, "
                "such as what "
                "`openssl rand -hex 32` prints"
            )


class Rejected(Exception):
    """Why a peer is not let in."""


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send a message as a whole."""
    data = json.dumps(message).encode()
    connection.sendall(struct.pack(">I", len(data)) + data)


def receive(connection: socket.socket) -> dict[str, Any]:
    """Return the next message.

    Raises:
        OSError: The connection was closed, is broken, or brought nothing in time.
        ValueError: What came is no message.
    """
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


def proof(secret: str | None, *said: object) -> str:
    """Return what only who knows the secret can say of these words and numbers."""
    text = json.dumps(said, sort_keys=True).encode()
    return hmac.new((secret or "").encode(), text, hashlib.sha256).hexdigest()


def is_proven(sealed: object, secret: str | None, *said: object) -> bool:
    """Tell whether a proof is right.

    Args:
        sealed: the proof that came.
        secret: what both sides should know.
        *said: the words and numbers that it is for.
    """
    return hmac.compare_digest(str(sealed), proof(secret, *said))


def is_on_this_machine(peer: str, here: str) -> bool:
    """Tell whether the other end of a connection is on the same machine.

    Args:
        peer: the address of the other end, in numbers.
        here: the address of this end.
    """
    return peer == here or is_loopback(peer)


def listen(point: RendezvousOptions, deadline: float) -> socket.socket:
    """Listen at worker 0's address: on that interface only, never on all.

    Args:
        point: where.
        deadline: until when the name of the machine may be unknown.

    Raises:
        ClusterError: The port is in use, or the address is not one of this machine.
    """
    host, port = parse_address("RendezvousOptions", "master", point.master)
    found = resolve(host, port, deadline)
    listener = socket.socket(found[0], socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(found[1])
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise ClusterError(
            f"worker 0 cannot listen at {point.master} ({found[1][0]}), as MASTER_ADDR and MASTER_PORT or "
            f"the launcher say: {error.strerror}. Wanted an address of this machine, {socket.gethostname()}, and a "
            "port that no other program or job uses; set MASTER_PORT to another one"
        ) from error
    return listener


def challenge(connection: socket.socket, point: RendezvousOptions) -> str:
    """Ask who connects to worker 0 for a proof; return the number that the proof is for."""
    connection.settimeout(HELLO_SECS)
    number = secrets.token_hex(16)
    send(connection, {"tpack rendezvous": _PROTOCOL, "number": number, "has_secret": point.secret is not None})
    return number


def check_newcomer(
    connection: socket.socket, point: RendezvousOptions, told: dict[str, Any], number: str
) -> dict[str, Any]:
    """Return what a peer says, if it is a worker of this job.

    Args:
        connection: to the peer.
        point: that of worker 0.
        told: the message that came for a challenge.
        number: that of the challenge.

    Raises:
        Refusal: It is not, and why.
    """
    said = told["said"]
    peer, here = connection.getpeername()[0], connection.getsockname()[0]
    if point.secret is None and not is_on_this_machine(peer, here):
        raise Rejected(f"worker 0 has no {SECRET_VARIABLE}, and this peer is on another machine: set the same in all")
    if not is_proven(told["proof"], point.secret, "join", number, told["number"], said):
        raise Rejected(f"its {SECRET_VARIABLE} is not that of worker 0")
    if said["token"] != point.token:
        raise Rejected(f"it belongs to the job {said['token']!r}, and worker 0 to {point.token!r}: two jobs, one port")
    if said["size"] != point.size:
        raise Rejected(f"it was told of {said['size']} workers, and worker 0 of {point.size}")
    # Parameter servers are numbered after the workers.
    is_worker = said["rank"] in range(point.size)
    if is_worker == (said["for"] == "watch") or said["rank"] < 0:
        raise Rejected(f"its rank is {said['rank']!r}: expected 0 to {point.size - 1}")
    return dict(said)


def present(
    connection: socket.socket, point: RendezvousOptions, rank: int, purpose: str, **more: Any
) -> tuple[str, str]:
    """Say to worker 0 who this is, and prove it; return both sides' numbers, this one's first.

    Args:
        connection: to worker 0.
        point: that of this worker.
        rank: its number.
        purpose: what it has come for: ``meeting``, ``line``, or ``watch`` of a parameter server.
        **more: what else it says.

    Raises:
        ClusterError: The other end is no worker 0, or only one of the two has a secret.
    """
    connection.settimeout(HELLO_SECS)
    theirs, number = _read_challenge(connection, point, rank), secrets.token_hex(16)
    said = {"for": purpose, "rank": rank, "size": point.size, "token": point.token, **more}
    send(connection, {"said": said, "number": number, "proof": proof(point.secret, "join", theirs, number, said)})
    return number, theirs


def _read_challenge(connection: socket.socket, point: RendezvousOptions, rank: int) -> str:
    """Return the number of the challenge."""
    try:
        greeting = receive(connection)
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
        raise ClusterError(f"{who} has a {SECRET_VARIABLE} and {other} has none: expected the same in all")
    if point.secret is None and not is_on_this_machine(peer, here):
        raise ClusterError(
            f"worker {rank} is not on the machine of worker 0, {point.master}, and there is no {SECRET_VARIABLE}: set "
            "the same in all workers, such as what `openssl rand -hex 32` prints"
        )
    return str(number)


def connect(point: RendezvousOptions, rank: int, deadline: float) -> socket.socket:
    """Connect to worker 0, which may not listen yet.

    Raises:
        ClusterError: It did not listen in time.
    """
    host, port = parse_address("RendezvousOptions", "master", point.master)
    pause = _RETRY_SECS[0]
    while True:
        _, address = resolve(host, port, deadline)
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


def resolve(host: str, port: int, deadline: float) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """Look a name up, which a cluster's name server may not know at once.

    Raises:
        ClusterError: It is not known in time.
    """
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
