"""Addresses of processes: ``host:port``, and ports that several processes derive from the same text."""

import ipaddress
import zlib

from tpack.errors import ConfigError
from tpack.utils.validation import shown

LOOPBACK = "127.0.0.1"

# Below the ephemeral ports of Linux, which begin at 32768.
_FIRST_PORT, _NUM_PORTS = 15000, 15000


def parse_address(owner: str, name: str, address: object) -> tuple[str, int]:
    """Return host and port of ``host:port``; the host of an IPv6 address stands in brackets.

    Args:
        owner: the class, function or variable that got the address, for the message.
        name: the argument or field.
        address: the value.

    Raises:
        ConfigError: It is not an address.
    """
    host, colon, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    is_bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if is_bracketed else host
    is_host = bool(bare) and not any(letter.isspace() or letter in "/,[]" for letter in bare)
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) <= 65535
    if not colon or not is_host or (":" in bare) != is_bracketed or not is_port:
        raise ConfigError(
            f"{owner} got {name}={shown(address)}: expected an address such as node1:5000, with a port from 1 to 65535"
        )
    return bare, int(port)


def join_address(host: str, port: int) -> str:
    """Return ``host:port``, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def derived_port(text: str) -> int:
    """Return a port from 15000 to 29999 that is a hash of a text.

    Args:
        text: the same in all processes of a job, different in other jobs.
    """
    return _FIRST_PORT + zlib.crc32(text.encode()) % _NUM_PORTS


def is_loopback(host: str) -> bool:
    """Tell whether an IP address is one that only this machine can use."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
