"""Addresses of processes, and ports that are kept free for them.

A port that the system has given out is free only until somebody else asks for one. So it is not let go: a socket stays
bound to it and never listens. The system gives such a port to nobody that asks for any, and lets the one bind it that
asks for just this one with SO_REUSEADDR, as gRPC and most servers do. It is bound on all interfaces: gRPC binds all,
and could not if somebody had been given the same port on another one.
"""

import ipaddress
import socket
import sys
import zlib

from tpack.errors import ConfigError
from tpack.utils.validation import shown

LOOPBACK = "127.0.0.1"

# Below the ports that Linux gives out by itself, which begin at 32768.
_FIRST_PORT, _NUM_PORTS = 15000, 15000


class PortReservation:
    """A port of this machine that the system has given out, and gives to nobody else until it is closed.

    On systems other than Linux nothing keeps it, and another program may get it.

    Args:
        host: the address that others will know it by: one of IPv6 has a colon.

    Attributes:
        port: its number.
    """

    def __init__(self, host: str = LOOPBACK) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("", 0))
        self.port: int = self._socket.getsockname()[1]
        if not sys.platform.startswith("linux"):
            self.close()

    def __enter__(self) -> "PortReservation":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the port go."""
        self._socket.close()


def parse_address(address: object, name: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; the host of an IPv6 address stands in brackets.

    Args:
        address: what came.
        name: the field that it came in, for the message.

    Raises:
        ConfigError: It is no address.
    """
    host, colon, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    is_bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if is_bracketed else host
    is_host = bool(bare) and not any(letter.isspace() or letter in "/,[]" for letter in bare)
    if not colon or not is_host or (":" in bare) != is_bracketed or not _is_port(port):
        raise ConfigError(
            f"{name} is {shown(address)}: expected an address such as node1:5000, with a port up to 65535"
        )
    return bare, int(port)


def join_address(host: str, port: int) -> str:
    """Return ``host:port``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def port_made_from(text: str) -> int:
    """Return a port from 15000 to 29999 that all who know a text agree on.

    Args:
        text: what is the same in all processes of a job, and in no other job.
    """
    return _FIRST_PORT + zlib.crc32(text.encode()) % _NUM_PORTS


def is_loopback(host: str) -> bool:
    """Tell whether an address, in numbers, is one that only this machine can use."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) <= 65535
