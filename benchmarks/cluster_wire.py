"""Links of a certain rate and delay between processes of one machine, for the benchmarks.

Each process has a network namespace of its own, and in it a device, ``wire``, to which the system hands whole IP
packets in place of sending them (TUN). One process, the wire, reads the packets of all devices and writes each to that
of its receiver when it would have arrived: a link carries so many bytes a second in each direction, and each packet
arrives so much later. Nothing is lost. It needs the rights of root and Linux.

The sizes of packets are those of half a millisecond, so that the wire itself needs little of the processor.
"""

import contextlib
import ctypes
import errno
import fcntl
import heapq
import itertools
import multiprocessing
import os
import select
import socket
import struct
import subprocess
import time
from dataclasses import dataclass, field

from cluster_line import WIRE

_NEW_NETWORK = 0x40000000
_SET_INTERFACE = 0x400454CA
_WHOLE_PACKETS = 0x0001 | 0x1000
_PACKET_SECS = 0.5e-3
_PACKET_BYTES = (1500, 62000)
_AHEAD_SECS = 2e-3
"""By how much packets are read before their turn, so that the link is not idle when the wire is late."""


@dataclass(frozen=True)
class Link:
    """A link of each process to all others.

    Attributes:
        bits: what it carries a second, in each direction.
        delay_secs: how long a packet travels.
    """

    bits: float
    delay_secs: float = 0.0

    @property
    def packet_bytes(self):
        """The size of the largest packet."""
        low, high = _PACKET_BYTES
        return int(min(max(self.bits / 8 * _PACKET_SECS, low), high))


@dataclass
class Traffic:
    """The times at which packets of several processes leave and arrive.

    Attributes:
        link: the link of each process.
        size: how many there are.
    """

    link: Link
    size: int
    _is_sent: list = field(init=False)
    _is_received: list = field(init=False)

    def __post_init__(self):
        self._is_sent, self._is_received = [0.0] * self.size, [0.0] * self.size

    def begins(self, sender):
        """Return when the link of a process is free for its next packet."""
        return self._is_sent[sender]

    def arrives(self, now, sender, receiver, num_bytes):
        """Send a packet as soon as the link is free, and return when it is there."""
        secs = num_bytes * 8 / self.link.bits
        self._is_sent[sender] = max(now, self._is_sent[sender]) + secs
        first = max(self._is_sent[sender] - secs + self.link.delay_secs, self._is_received[receiver])
        self._is_received[receiver] = first + secs
        return self._is_received[receiver]


class Wire:
    """A network for some processes, each of which calls `enter` before it does anything else.

    Args:
        link: that of each process.
        size: how many processes there are.
        stack: ends it.
    """

    def __init__(self, link, size, *, stack):
        self.hosts = [f"10.77.0.{rank + 1}" for rank in range(size)]
        self._link = link
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        stack.callback(self._channel.close)
        carrying = multiprocessing.get_context("fork").Process(target=_carry, args=(theirs, link, size), daemon=True)
        carrying.start()
        theirs.close()
        stack.callback(carrying.join)
        stack.callback(carrying.kill)

    def enter(self, rank):
        """Move this process, which has one thread, into a network namespace with nothing but its device.

        Raises:
            OSError: The system does not allow it.
            subprocess.CalledProcessError: The device cannot be set up.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_NEW_NETWORK):
            number = ctypes.get_errno()
            raise OSError(number, f"no network namespace: {os.strerror(number)}")
        device = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(device, _SET_INTERFACE, struct.pack("16sH14x", WIRE.encode(), _WHOLE_PACKETS))
        for words in (
            f"address add {self.hosts[rank]}/24 dev {WIRE}",
            f"link set {WIRE} mtu {self._link.packet_bytes} up",
            "link set lo up",
        ):
            subprocess.run(["ip", *words.split()], check=True, capture_output=True, text=True)
        socket.send_fds(self._channel, [bytes([rank])], [device])
        os.close(device)


def why_not():
    """Return why this machine has no wires for this user, or "" if it has."""
    with contextlib.ExitStack() as stack:
        wire = Wire(Link(1e9), 1, stack=stack)
        reason, theirs = os.pipe()
        trying = multiprocessing.get_context("fork").Process(target=_try, args=(wire, theirs))
        trying.start()
        os.close(theirs)
        with open(reason, encoding="utf-8") as text:
            found = text.read()
        trying.join()
        return found


def _try(wire, answer):
    with open(answer, "w", encoding="utf-8") as text:
        try:
            wire.enter(0)
        except (OSError, AttributeError, subprocess.CalledProcessError) as error:
            text.write(f"{error} {getattr(error, 'stderr', '') or ''}".strip())


def _carry(channel, link, size):
    """Carry packets between the devices of all processes, until this one is killed."""
    with contextlib.suppress(PermissionError):
        # It has to be on time while the processes compute.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    devices = [-1] * size
    for _ in range(size):
        rank, (device,), _, _ = socket.recv_fds(channel, 1, 1)
        os.set_blocking(device, False)
        devices[rank[0]] = device
    try:
        _serve(devices, Traffic(link, size))
    except OSError as error:
        # The device of a process that has ended is gone.
        if error.errno not in (errno.EBADFD, errno.EIO):
            raise


def _serve(devices, traffic):
    size, numbers, on_way = len(devices), itertools.count(), []
    ranks = {device: rank for rank, device in enumerate(devices)}
    while True:
        now = time.monotonic()
        while on_way and on_way[0][0] <= now:
            _, _, receiver, packet = heapq.heappop(on_way)
            os.write(devices[receiver], packet)
        begins = [traffic.begins(rank) - _AHEAD_SECS for rank in range(size)]
        ready = [device for device, rank in ranks.items() if begins[rank] <= now]
        events = [each for each in begins if each > now] + [each[0] for each in on_way[:1]]
        readable, _, _ = select.select(ready, [], [], max(0.0, min(events) - now) if events else None)
        now = time.monotonic()
        for device in readable:
            packet = os.read(device, 1 << 16)
            receiver = packet[19] - 1
            # Version 4: what the system itself sends by version 6 concerns nobody.
            if packet[0] >> 4 == 4 and 0 <= receiver < size:
                at = traffic.arrives(now, ranks[device], receiver, len(packet))
                heapq.heappush(on_way, (at, next(numbers), receiver, packet))
