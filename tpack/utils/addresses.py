"""Addresses of processes, and lists of hosts in Slurm's short form."""

import ipaddress
import itertools
import re
import zlib
from collections.abc import Iterator

from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_text, shown

LOOPBACK = "127.0.0.1"
# Below the ephemeral ports of Linux, which begin at 32768.
_FIRST_PORT, _NUM_PORTS = 15000, 15000
_MOST_HOSTS = 65536
# A part in brackets, or text outside of them.
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


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


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can use an IP address."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def derived_port(text: str) -> int:
    """Return a port from 15000 to 29999 that is a hash of a text, the same in all processes of a job."""
    return _FIRST_PORT + zlib.crc32(text.encode()) % _NUM_PORTS


@check_arguments
def expand_hosts(nodelist: str, name: str = "nodelist") -> tuple[str, ...]:
    """Return the hosts of a list in Slurm's short form, in its order.

    Args:
        nodelist: such as ``n[001-003,7],gpu1``; several brackets in one name give all combinations.
        name: the variable that holds it, for the message.

    Raises:
        ConfigError: It cannot be read, or it has more than 65,536 hosts.

    Example:
        ``expand_hosts("n[08-10],gpu1")`` gives ``("n08", "n09", "n10", "gpu1")``.
    """
    check_text("expand_hosts", name, nodelist)
    hosts: list[str] = []
    for entry in _split(nodelist, name):
        hosts += itertools.islice(_combinations(entry, nodelist, name), _MOST_HOSTS + 1)
        if len(hosts) > _MOST_HOSTS:
            raise _unreadable(name, nodelist, f"at most {_MOST_HOSTS} hosts")
    return tuple(hosts)


def _split(nodelist: str, name: str) -> Iterator[str]:
    """Yield the entries between the commas that are outside of brackets."""
    depth = start = 0
    for place, letter in enumerate(nodelist):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if depth not in (0, 1):
            break
        if letter == "," and not depth:
            yield nodelist[start:place]
            start = place + 1
    if depth:
        raise _unreadable(name, nodelist, "brackets in pairs, not nested")
    yield nodelist[start:]


def _combinations(entry: str, nodelist: str, name: str) -> Iterator[str]:
    """Yield the hosts of one entry; the last bracket counts fastest."""
    parts = list(_PART.finditer(entry))
    if not parts or "".join(part[0] for part in parts) != entry:
        raise _unreadable(name, nodelist, "hosts between the commas")
    choices = [(part[2],) if part[2] else tuple(_numbers(part[1], nodelist, name)) for part in parts]
    return map("".join, itertools.product(*choices))


def _numbers(text: str, nodelist: str, name: str) -> Iterator[str]:
    """Yield the numbers of a bracket, with their leading zeros."""
    for item in text.split(","):
        found = _RANGE.fullmatch(item)
        low, high = (found[1], found[2] or found[1]) if found else ("1", "0")
        if int(low) > int(high) or int(high) - int(low) >= _MOST_HOSTS:
            raise _unreadable(name, nodelist, f"a number or a range in place of {item!r}")
        for number in range(int(low), int(high) + 1):
            yield f"{number:0{len(low)}d}"


def _unreadable(name: str, nodelist: str, expected: str) -> ConfigError:
    return ConfigError(f"{name} got {nodelist[:100]!r}: expected {expected}, as in n[001-003,7],gpu1")
