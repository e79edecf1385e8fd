"""Options of connections between machines: limits, timeouts, and keys without which nothing leaves this machine."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tpack.errors import ConfigError
from tpack.utils.lazy import import_optional
from tpack.utils.validation import check_arguments, check_count, check_instance, check_number, shown

# Addresses that only processes on this machine can reach.
_LOCAL_ADDRESS = re.compile(r"ipc://.+|tcp://(127\.\d+\.\d+\.\d+|localhost|\[::1\]|lo):(\d+|\*)")
_ANY_ADDRESS = re.compile(r"ipc://.+|tcp://.+:(\d+|\*)")
# A key of CURVE, 32 bytes, as text in the Z85 alphabet.
_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


@check_arguments
@dataclass(frozen=True)
class CurveKeys:
    """The keys of one end of a connection: data is encrypted, and only known peers may connect.

    See `make_curve_keys` for how to get them.

    Attributes:
        public: its own public key, 40 characters.
        secret: its secret key, which is not printed.
        peers: the public keys of its peers: for an end that connects that of the end that binds; for an end that binds
            those of all others.

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
                raise ConfigError(f"CurveKeys got a malformed {name} key: expected 40 characters; use make_curve_keys")


@check_arguments
@dataclass(frozen=True)
class RemoteOptions:
    """Options of an end of a connection.

    Attributes:
        keys: its keys; None only for connections within this machine.
        max_message_bytes: larger messages are refused; set it at both ends.
        max_waiting_bytes: the size of waiting data points of a peer at the receiving end. As many wait there as would
            fit at the greatest size, at least one; others wait at the peer.
        timeout_secs: the timeout of sending or getting a data point; None waits for ever.
        heartbeat_secs: the interval of heartbeats of a silent peer. Without an answer for three times as long it is
            disconnected.

    Raises:
        ConfigError: A number is not positive, or a value is of another type.
    """

    keys: CurveKeys | None = None
    max_message_bytes: int = 1 << 27
    max_waiting_bytes: int = 1 << 29
    timeout_secs: float | None = None
    heartbeat_secs: float = 10.0

    def __post_init__(self) -> None:
        if self.keys is not None:
            check_instance(self, "keys", self.keys, CurveKeys, "CurveKeys from make_curve_keys, or None")
        check_count(self, "max_message_bytes", self.max_message_bytes)
        check_count(self, "max_waiting_bytes", self.max_waiting_bytes)
        if self.timeout_secs is not None:
            check_number(self, "timeout_secs", self.timeout_secs, 0, is_low_allowed=False)
        check_number(self, "heartbeat_secs", self.heartbeat_secs, 0, is_low_allowed=False)

    def num_waiting(self, hwm: int) -> int:
        """Return the number of waiting data points of a peer at the receiving end, at most ``hwm``."""
        return max(1, min(hwm, self.max_waiting_bytes // self.max_message_bytes))


@check_arguments
def make_curve_keys(num_peers: int = 1) -> list[CurveKeys]:
    """Return the keys of an end that binds, then those of each of ``num_peers`` that connect to it; keep all secret.

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
    """Return an address, such as ``"tcp://127.0.0.1:5555"``, to which data may go; with keys any may be reached.

    Raises:
        ConfigError: It is malformed, or reaches beyond this machine without keys; or the options are not
            `RemoteOptions`.
    """
    if not isinstance(address, str) or not _ANY_ADDRESS.fullmatch(address):
        raise ConfigError(f"{owner} got {name}={shown(address)}: expected 'tcp://host:port' or 'ipc://path'")
    check_instance(owner, "options", options, RemoteOptions)
    if options.keys is None and not _LOCAL_ADDRESS.fullmatch(address):
        raise ConfigError(
            f"{owner} got {name}={address!r}, which other machines can reach without keys: expected "
            "tcp://127.0.0.1:port or ipc://path; use keys from make_curve_keys for other addresses"
        )
    return address
