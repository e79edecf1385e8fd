"""Let a socket that listens on all interfaces be reached at some addresses only.

TensorFlow's servers listen on all interfaces, whatever address they are given, and there is no option against it. Nor
can the socket be exchanged for another once gRPC waits for it. But Linux lets a process put a filter on a socket of its
own, a few instructions that look at each packet before the socket sees it: this one drops what is sent to another
address, so that nobody there finds anything listening.
"""

import ctypes
import ipaddress
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Instruction: TypeAlias = tuple[int, int, int, int]

_SO_ATTACH_FILTER = 26
_NETWORK_HEADER = -0x100000 & 0xFFFFFFFF
# Where the address that a packet is sent to stands in the header of its kind, and in how many words.
_TARGET_OF_IPV4, _TARGET_OF_IPV6 = (16, 1), (24, 4)
_LOAD_BYTE, _LOAD_WORD, _AND, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x06
_ALL, _NOTHING = 0xFFFFFFFF, 0


def own_addresses(host: str) -> tuple[Address, ...]:
    """Return the addresses of this machine that a name stands for.

    A name may also stand for something else: an address that a router in between replaces, as in front of a service of
    Kubernetes; or for this machine and no other, as where /etc/hosts gives the machine's own name a loopback address.
    By such a name the others do not send to the address that this machine finds.

    Args:
        host: a name or an address in numbers.

    Returns:
        The addresses; empty where what others send to cannot be told from the name.
    """
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return ()
    addresses = sorted(map(ipaddress.ip_address, map(str, found)), key=str)
    is_name = not _is_numeric(host) and host != "localhost"
    if any(not _is_here(address) or (is_name and address.is_loopback) for address in addresses):
        return ()
    return tuple(addresses)


def listen_only_at(port: int, addresses: Iterable[Address]) -> bool:
    """Let the sockets of this process that listen at a port be reached at some addresses only.

    Args:
        port: their port.
        addresses: where they can be reached from now on.

    Returns:
        Whether they are so now; False where the system cannot do that.
    """
    if not sys.platform.startswith("linux"):
        return False
    program = _program(list(addresses))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
    told = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    count = 0
    for listener in _listening_at(port):
        try:
            listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, told)
        except OSError:
            return False
        count += 1
    return count > 0


def _program(addresses: list[Address]) -> list[_Instruction]:
    """Return the filter: all of a packet if it is sent to one of the addresses, else nothing of it."""
    program: list[_Instruction] = []
    for address in addresses:
        offset, num_words = _TARGET_OF_IPV4 if address.version == 4 else _TARGET_OF_IPV6
        words = struct.unpack(f"!{num_words}I", address.packed)
        # A comparison that fails jumps over what is left of the address, and over the return after it.
        rest = 2 * num_words + 1
        program += [(_LOAD_BYTE, 0, 0, _NETWORK_HEADER), (_AND, 0, 0, 0xF0)]
        program.append((_JUMP_IF_EQUAL, 0, rest, address.version << 4))
        for index, word in enumerate(words):
            program.append((_LOAD_WORD, 0, 0, _NETWORK_HEADER + offset + 4 * index))
            program.append((_JUMP_IF_EQUAL, 0, rest - 2 * (index + 1), word))
        program.append((_RETURN, 0, 0, _ALL))
    return [*program, (_RETURN, 0, 0, _NOTHING)]


def _listening_at(port: int) -> Iterator[socket.socket]:
    """Yield the sockets of this process that listen at a port, each as a copy that is closed afterwards."""
    for name in os.listdir("/proc/self/fd"):
        copy = _copy_of_socket(int(name))
        if copy is not None:
            with copy:
                listens = copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if listens and copy.getsockname()[1] == port:
                    yield copy


def _copy_of_socket(descriptor: int) -> socket.socket | None:
    try:
        is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
        return socket.socket(fileno=os.dup(descriptor)) if is_socket else None
    except OSError:
        # Another thread has closed it since the list was made.
        return None


def _is_here(address: Address) -> bool:
    """Tell whether an address is one of this machine's, since only such a one can be bound."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
