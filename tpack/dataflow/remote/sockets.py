"""ZeroMQ sockets for data points: opened with limits, keys and heartbeats, and always closed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tpack.dataflow.remote.options import CurveKeys, RemoteOptions
from tpack.errors import InputError
from tpack.utils.lazy import import_optional

_ZAP_DOMAIN = "tpack"


@dataclass(frozen=True)
class Endpoint:
    """The settings of one socket of the kind ``"PULL"`` or ``"PUSH"``, which binds or connects to its address."""

    kind: str
    address: str
    hwm: int
    bind: bool
    options: RemoteOptions


@contextmanager
def open_sockets(*endpoints: Endpoint) -> Iterator[list[Any]]:
    """Open sockets of the same keys in a context of their own; at the end they are closed, dropping waiting messages.

    Raises:
        InputError: An address cannot be bound or connected to.
        DependencyError: The package ``pyzmq`` is not installed.
    """
    zmq = import_optional("zmq", "zmq")
    context = zmq.Context()
    try:
        with _gatekeeper(context, endpoints[0].options.keys if any(one.bind for one in endpoints) else None):
            yield [_open(zmq, context, one) for one in endpoints]
    finally:
        context.destroy(linger=0)
        for one in endpoints:
            # The library leaves the file of a bound address.
            name = one.address.removeprefix("ipc://")
            if one.bind and name != one.address:
                with suppress(FileNotFoundError):
                    os.unlink(name)


def _open(zmq: ModuleType, context: Any, endpoint: Endpoint) -> Any:
    socket = context.socket(getattr(zmq, endpoint.kind))
    options = endpoint.options
    socket.set_hwm(endpoint.hwm)
    socket.linger = 0
    socket.ipv6 = True
    # Larger messages end the connection before they are received. Those up to here are received, counted and refused.
    socket.maxmsgsize = 2 * options.max_message_bytes
    heartbeat_ms = max(1, int(1000 * options.heartbeat_secs))
    socket.heartbeat_ivl = heartbeat_ms
    socket.heartbeat_timeout = 3 * heartbeat_ms
    if options.keys is not None:
        _use_keys(zmq, socket, options.keys, bind=endpoint.bind)
    try:
        (socket.bind if endpoint.bind else socket.connect)(endpoint.address)
    except zmq.ZMQError as error:
        doing = "bound" if endpoint.bind else "connected to"
        raise InputError(f"the address {endpoint.address} cannot be {doing}: {error}") from error
    return socket


def _use_keys(zmq: ModuleType, socket: Any, keys: CurveKeys, *, bind: bool) -> None:
    """Encrypt the data of a socket."""
    socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
    if bind:
        socket.curve_server = True
        # Without the gatekeeper all peers are rejected, rather than accepted.
        socket.set_string(zmq.ZAP_DOMAIN, _ZAP_DOMAIN)
        socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)
    else:
        socket.curve_serverkey = keys.peers[0].encode()


class _KnownPeers:
    """The callback of the gatekeeper."""

    def __init__(self, keys: CurveKeys) -> None:
        self._allowed = {key.encode() for key in keys.peers}

    def callback(self, domain: str, key: bytes) -> bool:
        """Tell whether a public key is that of a peer."""
        return key in self._allowed


@contextmanager
def _gatekeeper(context: Any, keys: CurveKeys | None) -> Iterator[None]:
    """Let only peers of known keys connect to the sockets of a context; do nothing without keys."""
    if keys is None:
        yield
        return
    authenticator = import_optional("zmq.auth.thread", "zmq").ThreadAuthenticator(context)
    authenticator.start()
    try:
        authenticator.configure_curve_callback(_ZAP_DOMAIN, _KnownPeers(keys))
        yield
    finally:
        authenticator.stop()


def drain_events(zmq: ModuleType, monitor: Any) -> Iterator[int]:
    """Yield the numbers of the events of a monitor socket, without waiting."""
    parse = import_optional("zmq.utils.monitor", "zmq").parse_monitor_message
    with suppress(zmq.Again):
        while True:
            yield int(parse(monitor.recv_multipart(zmq.NOBLOCK))["event"])


def rejections(zmq: ModuleType) -> tuple[int, ...]:
    """Return the events of a rejected peer; timing decides which of them comes."""
    return zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
