"""Restrict a socket that listens on all interfaces to some addresses.

TensorFlow's servers listen on all interfaces, without authentication, whatever address they are given, and offer no
option against it. Linux lets a process attach a filter to its own socket, instructions that see each packet first: this
one drops packets to other addresses.
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
# Offset of the destination address in each kind of header, and its length in words.
_TARGET_OF_IPV4, _TARGET_OF_IPV6 = (16, 1), (24, 4)
_LOAD_BYTE, _LOAD_WORD, _AND, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x06
_ALL, _NOTHING = 0xFFFFFFFF, 0


def own_addresses(host: str) -> tuple[Address, ...]:
    """Return the addresses of this machine that a name stands for.

    None are returned where the others may send to other addresses: the name may stand for one that a router translates,
    as of a service of Kubernetes, or /etc/hosts may give the machine's own name a loopback address.
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
    """Restrict the sockets of this process that listen at a port to some addresses; False if the system cannot."""
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
    """Return the filter: all of a packet to one of the addresses, nothing of others."""
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
    """Yield copies of the sockets of this process that listen at a port; each is closed afterwards."""
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
