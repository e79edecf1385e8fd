"""How data points travel between machines: limits, time limits, and keys without which nothing leaves this machine."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tpack.errors import ConfigError
from tpack.utils.optional import import_optional
from tpack.utils.validation import check_arguments, check_count, check_instance, check_number, shown

# Addresses that only processes on this machine can reach.
_LOCAL_ADDRESS = re.compile(r"ipc://.+|tcp://(127\.\d+\.\d+\.\d+|localhost|\[::1\]|lo):(\d+|\*)")
_ANY_ADDRESS = re.compile(r"ipc://.+|tcp://.+:(\d+|\*)")
# A key of CURVE, 32 bytes, as text in the Z85 alphabet.
_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


@check_arguments
@dataclass(frozen=True)
class CurveKeys:
    """The keys of one end of a connection: data is encrypted, and only known peers are talked to.

    See `make_curve_keys` for how to get them.

    Attributes:
        public: its own public key, 40 characters.
        secret: the secret key that belongs to it. It is not shown when the object is printed.
        peers: the public keys of those it talks to. An end that connects knows one, that of the end that binds; an end
            that binds knows all who may connect.

    Raises:
        ConfigError: A key is malformed, or there is no peer.
    """

    public: str
    secret: str = field(repr=False)
    peers: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.peers, tuple) or not self.peers:
            raise ConfigError(f"CurveKeys got peers={shown(self.peers)}: expected a tuple of at least one public key")
        for name, key in [("public", self.public), ("secret", self.secret), *(("peers", key) for key in self.peers)]:
            if not isinstance(key, str) or not _KEY.fullmatch(key):
                raise ConfigError(
                    f"CurveKeys got a malformed {name} key: expected 40 characters, as make_curve_keys gives"
                )


@check_arguments
@dataclass(frozen=True)
class RemoteOptions:
    """How an end of a connection behaves.

    Attributes:
        keys: its keys; None is for connections within this machine, and nothing else.
        max_message_bytes: larger messages are refused; both ends have to know of more.
        max_waiting_bytes: how many bytes a peer may let wait at the receiving end. As many data points wait there as
            would fit if all were of the greatest size, at least one; what is more waits at the peer.
        timeout_secs: how long to wait for a peer, to send or to get a data point, until that is an error; None waits
            for ever.
        heartbeat_secs: how often to ask a silent peer whether it is there. One that does not answer for three times as
            long is disconnected.

    Raises:
        ConfigError: A number is not positive, or something is of another type.
    """

    keys: CurveKeys | None = None
    max_message_bytes: int = 1 << 27
    max_waiting_bytes: int = 1 << 29
    timeout_secs: float | None = None
    heartbeat_secs: float = 10.0

    def __post_init__(self) -> None:
        if self.keys is not None:
            check_instance(self, "keys", self.keys, CurveKeys, "CurveKeys, as make_curve_keys gives, or None")
        check_count(self, "max_message_bytes", self.max_message_bytes)
        check_count(self, "max_waiting_bytes", self.max_waiting_bytes)
        if self.timeout_secs is not None:
            check_number(self, "timeout_secs", self.timeout_secs, 0, is_low_allowed=False)
        check_number(self, "heartbeat_secs", self.heartbeat_secs, 0, is_low_allowed=False)

    def num_waiting(self, hwm: int) -> int:
        """Return how many data points of a peer wait at the receiving end, if ``hwm`` would."""
        return max(1, min(hwm, self.max_waiting_bytes // self.max_message_bytes))


@check_arguments
def make_curve_keys(num_peers: int = 1) -> list[CurveKeys]:
    """Make new keys for an end that binds and those that connect to it.

    Args:
        num_peers: how many connect.

    Returns:
        The keys of the end that binds, then those of each other end. Keep every one of them secret, and give each
        machine its own.

    Raises:
        ConfigError: ``num_peers`` is less than 1.
        DependencyError: The package ``pyzmq`` is not installed.
    """
    check_count("make_curve_keys", "num_peers", num_peers)
    zmq = import_optional("zmq", "zmq")
    pairs: Sequence[tuple[str, str]] = [
        tuple(key.decode("ascii") for key in zmq.curve_keypair()) for _ in range(num_peers + 1)
    ]
    (public, secret), *others = pairs
    binding = CurveKeys(public, secret, tuple(other for other, _ in others))
    return [binding, *(CurveKeys(other, other_secret, (public,)) for other, other_secret in others)]


def check_address(owner: str, address: object, options: RemoteOptions, name: str = "addr") -> str:
    """Return an address if data may go there.

    Args:
        owner: who wants to use it, for the message.
        address: such as ``"tcp://127.0.0.1:5555"`` or ``"ipc:///tmp/name"``.
        options: with keys, any address is allowed.
        name: the argument.

    Raises:
        ConfigError: It is no such address, or it reaches beyond this machine and there are no keys; or the options are
            no `RemoteOptions`.
    """
    if not isinstance(address, str) or not _ANY_ADDRESS.fullmatch(address):
        raise ConfigError(f"{owner} got {name}={shown(address)}: expected 'tcp://host:port' or 'ipc://path'")
    check_instance(owner, "options", options, RemoteOptions)
    if options.keys is None and not _LOCAL_ADDRESS.fullmatch(address):
        raise ConfigError(
            f"{owner} got {name}={address!r}, which other machines can reach: anybody there could read the "
            "data or send other. Use tcp://127.0.0.1:port or ipc://path, or give keys: see make_curve_keys"
        )
    return address
