"""Slurm's short form of a list of hosts, such as ``n[001-003,7],gpu1``."""

import itertools
import re
from collections.abc import Iterator

from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_text

_MOST_HOSTS = 65536
# A part in brackets, or text outside of them.
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


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
