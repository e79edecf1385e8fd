"""Two machines that this one plays: network namespaces with a cable between them, which can be cut.

They need Linux, root and the ``ip`` command. What runs in one of them sees the files of this machine, and reaches the
other one alone.
"""

import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NETWORK = "10.77.0"
# Where packets go that nobody gets: the address of a network card that is not there.
_NOBODY = "02:00:00:00:00:99"


class TwoMachines:
    """Made by `two_machines`.

    Args:
        names: of the two namespaces.
    """

    def __init__(self, names: tuple[str, str]) -> None:
        self._names = names
        self.addresses = (f"{NETWORK}.1", f"{NETWORK}.2")

    def cut(self) -> None:
        """Let nothing through in either direction; neither side is told."""
        for name, other in zip(self._names, reversed(self.addresses), strict=True):
            _ip("-n", name, "neigh", "replace", other, "lladdr", _NOBODY, "dev", "cable", "nud", "permanent")

    def mend(self) -> None:
        """Let everything through again."""
        for name, other in zip(self._names, reversed(self.addresses), strict=True):
            with suppress(subprocess.CalledProcessError):
                _ip("-n", name, "neigh", "del", other, "dev", "cable")

    def write_ssh(self, path: Path) -> str:
        """Write a command that stands for ``ssh``: it runs a command on one of the machines; return it."""
        places = "".join(
            f'    {address}) exec ip netns exec {name} sh -c "$*" ;;\n'
            for address, name in zip(self.addresses, self._names, strict=True)
        )
        path.write_text(f"#!/bin/sh\nhost=$1\nshift\ncase $host in\n{places}esac\nexit 255\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)


def can_be_played() -> bool:
    """Tell whether this machine can play two."""
    if not sys.platform.startswith("linux") or shutil.which("ip") is None:
        return False
    try:
        with two_machines():
            return True
    except subprocess.CalledProcessError:
        return False


@contextmanager
def two_machines() -> Iterator[TwoMachines]:
    """Give two machines; they are gone at the end."""
    mark = uuid.uuid4().hex[:6]
    names = (f"tpack{mark}a", f"tpack{mark}b")
    machines = TwoMachines(names)
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("-n", names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names[1])
        for name, address in zip(names, machines.addresses, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            for device in ("cable", "lo"):
                _ip("-n", name, "link", "set", device, "up")
        yield machines
    finally:
        for name in names:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
