"""Both sides of the control channel's handshake: authentication of workers that share one address.

    worker r                                    worker 0, at the known address
    connect, with retries     ----------------> accept
                              <---------------- challenge: a nonce; whether there is a secret
    rank, size, purpose, ...  ----------------> check; reject with a reason, or admit
    with a nonce and a proof
                              <---------------- answer, with a proof for the nonce of worker r

A proof is an HMAC of the message and both nonces, keyed with the shared secret (``TPACK_CLUSTER_SECRET``), which is
never sent. Without a secret only peers of the same machine are admitted. Nothing is encrypted.

The address serves the rendezvous (`tpack.multi_worker.cluster.rendezvous`) first, then the control channel
(`tpack.multi_worker.cluster.peers`); the message has the purpose. For a control channel it also has the nonce of the
channel that the worker closed last, which distinguishes its next training from a second process of the same rank.
"""

import errno
import hashlib
import hmac
import json
import resource
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tpack.errors import ClusterError, ConfigError, PeerLostError
from tpack.multi_worker.control.messages import (
    LONGEST_HELLO,
    Channel,
    allow_descriptors,
    close_in_children,
    receive_now,
    send_now,
)
from tpack.utils.addresses import is_loopback, parse_address

SECRET_VARIABLE = "TPACK_CLUSTER_SECRET"
SHORTEST_SECRET = 16

HELLO_SECS = 10.0
"""The timeout of the whole handshake, on each side."""

_PROTOCOL = 5
_RETRY_SECS = (0.02, 0.5)
_LONGEST_TOKEN = 300
# The number of peers that have not proven the secret yet, in addition to two for each worker, and their share of the
# descriptors that this process may open. The oldest one is dropped for a new one.
_MOST_STRANGERS = 256
_SHARE_OF_DESCRIPTORS = 8
_MOST_REFUSED = 20
_LACKS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SHOWN_REFUSED = 10
_PAUSE_SECS = 0.2


@dataclass(frozen=True)
class RendezvousOptions:
    """Address, secret and timeout of a rendezvous or control channel.

    Attributes:
        master: the address at which the first worker listens.
        size: the number of workers.
        token: the name of the job; a long one is replaced by its beginning and a digest.
        secret: the shared secret; None admits only processes of one machine.
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
                f"{SECRET_VARIABLE} has {len(self.secret)} characters: expected at least {SHORTEST_SECRET}, such as "
                "the output of `openssl rand -hex 32`"
            )
        if len(self.token) > _LONGEST_TOKEN:
            digest = hashlib.sha256(self.token.encode()).hexdigest()
            object.__setattr__(self, "token", f"{self.token[: _LONGEST_TOKEN // 2]}... sha256 {digest}")


class NoChallenge(ConnectionError):
    """End of a connection before worker 0 sent anything: a proxy before it may listen earlier than it does."""


class Rejected(Exception):
    """Reason for not admitting a peer."""


def proof(secret: str | None, *values: object) -> str:
    """Return an HMAC of values, keyed with the secret."""
    text = json.dumps(values, sort_keys=True).encode()
    return hmac.new((secret or "").encode(), text, hashlib.sha256).hexdigest()


def is_proven(received: object, secret: str | None, *values: object) -> bool:
    """Tell whether a received proof is that of the values."""
    return hmac.compare_digest(str(received).encode(errors="replace"), proof(secret, *values).encode())


def is_on_this_machine(peer: str, here: str) -> bool:
    """Tell whether a connection is within one machine, from the IP addresses of its two ends."""
    return peer == here or is_loopback(peer)


def first_ranks(ranks: list[int]) -> str:
    """Return the first 20 ranks as text."""
    return ", ".join(map(str, ranks[:20])) + (f" and {len(ranks) - 20} more" if len(ranks) > 20 else "")


# Server


@dataclass
class Newcomer:
    """A peer that has connected to worker 0.

    Attributes:
        channel: the connection to it, with small limits until it is admitted.
        peer: its IP address.
        here: that of this end.
        until: the deadline of its handshake.
        hello: its message, once it is proven.
        numbers: its nonce and that of worker 0.
    """

    channel: Channel
    peer: str
    here: str
    until: float
    hello: dict[str, Any] = field(default_factory=dict)
    numbers: tuple[str, str] = ("", "")

    @property
    def rank(self) -> int:
        """Its rank; those of parameter servers come after the workers."""
        return int(self.hello["rank"])


class Admission:
    """Server side of the handshake, in its owner's selector loop and without blocking.

    Each key that it registers has a function to call as data, which raises nothing. A peer without the secret holds at
    most 4 KiB of memory, for `HELLO_SECS`; the number of such peers is limited.

    Args:
        options: have the address; it listens on that interface only.
        deadline: until when the name of the machine may be unknown.
        selector: the owner's.
        admit: called with each peer whose proof is right, whose channel it then owns. May raise `Rejected`.

    Attributes:
        refused: the different reasons given to peers that were not admitted, at most 20.

    Raises:
        ClusterError: The port is in use, or the address is not one of this machine.
    """

    def __init__(
        self,
        options: RendezvousOptions,
        deadline: float,
        selector: selectors.BaseSelector,
        admit: Callable[[Newcomer], None],
    ) -> None:
        self.refused: list[str] = []
        self._options = options
        self._selector = selector
        self._admit = admit
        self._newcomers: dict[Channel, Newcomer] = {}
        self._resumes_at: float | None = None
        # One for each worker, and as many for those that have not proven the secret.
        allow_descriptors(2 * options.size, f"worker 0 of {options.size}")
        share = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_DESCRIPTORS
        self._most_strangers = (min(_MOST_STRANGERS, share) if share > 0 else _MOST_STRANGERS) + 2 * options.size
        self._listener = _listen(options, deadline)
        self._listener.setblocking(False)
        close_in_children(self._listener)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def missing(self, present: Iterable[int], limit: str) -> tuple[str, list[int]]:
        """Return an error for workers that are not present, with reasons of rejected peers; and their ranks."""
        absent = sorted(set(range(self._options.size)).difference(present))
        text = f"of {self._options.size} workers {len(absent)} {limit}: {first_ranks(absent)}"
        refused = self.refused[:_SHOWN_REFUSED]
        return f"{text}. Refused were {'; '.join(refused)}" if refused else text, absent

    def check_deadlines(self, now: float) -> None:
        """Drop peers whose time is over, and accept again after a lack of descriptors."""
        # In the order of their deadlines.
        while self._newcomers and now > (first := next(iter(self._newcomers.values()))).until:
            self._drop(first)
        if self._resumes_at is not None and now > self._resumes_at:
            self._resumes_at = None
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Stop listening, and drop peers that are not admitted yet."""
        for newcomer in list(self._newcomers.values()):
            self._drop(newcomer)
        if self._resumes_at is None:
            self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (OSError, MemoryError) as error:
            if isinstance(error, MemoryError) or error.errno in _LACKS:
                self._pause()
            return
        try:
            self._greet(connection)
        except Exception:
            connection.close()

    def _pause(self) -> None:
        """Stop accepting for a moment, and free a descriptor: a listener that stays readable would be tried at once."""
        if self._newcomers:
            self._drop(next(iter(self._newcomers.values())))
        self._selector.unregister(self._listener)
        self._resumes_at = time.monotonic() + _PAUSE_SECS

    def _greet(self, connection: socket.socket) -> None:
        peer, here = connection.getpeername()[0], connection.getsockname()[0]
        channel = Channel(connection, 0, LONGEST_HELLO)
        newcomer = Newcomer(channel, peer, here, time.monotonic() + HELLO_SECS, numbers=("", secrets.token_hex(16)))
        if len(self._newcomers) >= self._most_strangers:
            self._drop(next(iter(self._newcomers.values())))
        self._newcomers[channel] = newcomer
        self._selector.register(channel, selectors.EVENT_READ, partial(self._receive, newcomer))
        has_secret = self._options.secret is not None
        channel.send({"tpack rendezvous": _PROTOCOL, "number": newcomer.numbers[1], "has_secret": has_secret})
        with suppress(OSError):
            channel.flush()

    def _receive(self, newcomer: Newcomer) -> None:
        """Read the message of a peer, and admit or reject it; nothing that it sends raises an error here."""
        if newcomer.channel not in self._newcomers:
            return
        try:
            messages = newcomer.channel.receive()
            if not messages:
                return
            self._forget(newcomer)
            self._check(newcomer, messages[0].header)
            self._admit(newcomer)
        except (OSError, EOFError):
            self._drop(newcomer)
        except Rejected as reason:
            self._refuse(newcomer, str(reason))
        except Exception as error:
            self._refuse(newcomer, f"its message cannot be read ({error})")

    def _check(self, newcomer: Newcomer, message: dict[str, Any]) -> None:
        """Keep the message of a peer, or raise `Rejected` if it is not a worker of this job."""
        options, hello = self._options, message["said"]
        if options.secret is None and not is_on_this_machine(newcomer.peer, newcomer.here):
            raise Rejected(
                f"worker 0 has no {SECRET_VARIABLE}, and this peer is on another machine: set the same in all"
            )
        number = newcomer.numbers[1]
        if not is_proven(message["proof"], options.secret, "join", number, message["number"], hello):
            raise Rejected(f"its {SECRET_VARIABLE} is not that of worker 0")
        if hello["token"] != options.token:
            raise Rejected(
                f"it belongs to the job {hello['token']!r}, and worker 0 to {options.token!r}: two jobs, one port"
            )
        if hello["size"] != options.size:
            raise Rejected(f"it expects {hello['size']} workers, and worker 0 {options.size}")
        # Parameter servers are numbered after the workers.
        is_worker = hello["rank"] in range(options.size)
        if is_worker == (hello["for"] == "ps") or hello["rank"] < 0:
            raise Rejected(f"its rank is {hello['rank']!r}: expected 0 to {options.size - 1}")
        newcomer.hello, newcomer.numbers = hello, (str(message["number"]), number)

    def _refuse(self, newcomer: Newcomer, why: str) -> None:
        text = f"{newcomer.peer}: {why[:_LONGEST_TOKEN]}"
        if len(self.refused) < _MOST_REFUSED and text not in self.refused:
            self.refused.append(text)
        with suppress(OSError):
            newcomer.channel.send({"refused": why})
            newcomer.channel.flush()
        self._drop(newcomer)

    def _drop(self, newcomer: Newcomer) -> None:
        self._forget(newcomer)
        newcomer.channel.close()

    def _forget(self, newcomer: Newcomer) -> None:
        if self._newcomers.pop(newcomer.channel, None) is not None:
            self._selector.unregister(newcomer.channel)


def _listen(options: RendezvousOptions, deadline: float) -> socket.socket:
    family, address = _resolve(options, deadline)
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(max(1024, 2 * options.size))
    except OSError as error:
        listener.close()
        raise ClusterError(
            f"worker 0 cannot listen at {options.master} ({address[0]}), from MASTER_ADDR and MASTER_PORT or the "
            f"launcher: {error.strerror}. Expected an address of this machine, {socket.gethostname()}, and a port that "
            "no other program or job uses; set MASTER_PORT to another one"
        ) from error
    return listener


# Client


def present(
    connection: socket.socket, options: RendezvousOptions, rank: int, purpose: str, **more: Any
) -> tuple[dict[str, Any], str, str]:
    """Send rank, purpose and proof to worker 0; return its answer, and the nonces of this side and of worker 0.

    Args:
        connection: to worker 0.
        options: those of this worker.
        rank: its rank.
        purpose: ``rendezvous``, or ``worker`` or ``ps`` for the control channel of one.
        **more: further entries.

    Raises:
        ClusterError: The other end is not worker 0, or only one of the two has a secret.
        OSError: The connection was lost, or there was no answer in time.
        ValueError: The answer is not a message.
    """
    deadline = time.monotonic() + HELLO_SECS
    theirs, number = _read_challenge(connection, options, rank), secrets.token_hex(16)
    hello = {"for": purpose, "rank": rank, "size": options.size, "token": options.token, **more}
    sealed = proof(options.secret, "join", theirs, number, hello)
    send_now(connection, {"said": hello, "number": number, "proof": sealed})
    return receive_now(connection, deadline - time.monotonic()), number, theirs


def _read_challenge(connection: socket.socket, options: RendezvousOptions, rank: int) -> str:
    """Return the nonce of worker 0."""
    try:
        greeting = receive_now(connection, HELLO_SECS, LONGEST_HELLO)
        protocol, number, has_secret = greeting["tpack rendezvous"], greeting["number"], greeting["has_secret"]
    except (ValueError, KeyError, TimeoutError) as error:
        raise ClusterError(
            f"the server at {options.master} is not worker 0 of a tpack cluster: another program has the port"
        ) from error
    except ConnectionError as error:
        raise NoChallenge(f"the connection was closed at once ({error})") from error
    if protocol != _PROTOCOL:
        raise ClusterError(f"worker 0 has version {protocol!r} of the protocol, worker {rank} {_PROTOCOL}")
    peer, here = connection.getpeername()[0], connection.getsockname()[0]
    if has_secret != (options.secret is not None):
        who, other = ("worker 0", f"worker {rank}") if has_secret else (f"worker {rank}", "worker 0")
        raise ClusterError(f"{who} has a {SECRET_VARIABLE} and {other} has none: expected the same in all")
    if options.secret is None and not is_on_this_machine(peer, here):
        raise ClusterError(
            f"worker {rank} is not on the machine of worker 0, {options.master}, and there is no {SECRET_VARIABLE}: "
            "set the same in all workers, such as the output of `openssl rand -hex 32`"
        )
    return str(number)


def connect(options: RendezvousOptions, rank: int, deadline: float) -> socket.socket:
    """Connect to worker 0, with retries until it listens.

    Raises:
        PeerLostError: It did not listen in time.
        ClusterError: The name of its machine is not known.
    """
    pause = _RETRY_SECS[0]
    while True:
        _, address = _resolve(options, deadline)
        try:
            return socket.create_connection(address[:2], timeout=max(deadline - time.monotonic(), 0.01))
        except OSError as error:
            if time.monotonic() + pause > deadline:
                raise PeerLostError(
                    f"worker {rank} of {options.size} found no server at {options.master} within "
                    f"{options.timeout_secs:g} s: worker 0 is missing ({error})",
                    (0,),
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, _RETRY_SECS[1])


def _resolve(options: RendezvousOptions, deadline: float) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """Look up the address of worker 0, which a cluster's name server may not know at once."""
    host, port = parse_address("RendezvousOptions", "master", options.master)
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
