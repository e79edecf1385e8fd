"""Many workers of a job in one process and thread: sockets that speak the protocol of worker 0, and do nothing else.

Each connects, proves the secret and waits, for the rendezvous or the control channel, whose exchanges it takes part in.
So worker 0 of a thousand can be measured on one machine.
"""

import math
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from tpack.multi_worker.control.handshake import RendezvousOptions, proof
from tpack.multi_worker.control.messages import Channel, ControlMessage, Timeouts
from tpack.utils.addresses import parse_address

_LARGEST = 1 << 40


class LightPeer:
    """One of them.

    Attributes:
        rank: its number.
        channel: its connection.
        seen: the headers that have arrived, but heartbeats.
        num_bytes: how many bytes of values have arrived.
    """

    def __init__(self, options: RendezvousOptions, rank: int, purpose: str) -> None:
        self.rank = rank
        self.seen: list[dict[str, Any]] = []
        self.num_bytes = 0
        self.is_admitted = False
        self._options = options
        self._purpose = purpose
        self._is_greeted = False
        connection = socket.create_connection(parse_address("LightPeer", "master", options.master), 60.0)
        self.channel = Channel(connection, _LARGEST)

    def take(self) -> None:
        """Read what has come, and answer the challenge."""
        for message in self.channel.receive():
            if not self._is_greeted:
                self._present(message)
            elif message.header.get("do") != "beat":
                self.is_admitted = True
                self.seen.append(message.header)
                self.num_bytes += len(message.data)

    def _present(self, message: ControlMessage) -> None:
        self._is_greeted = True
        options, number = self._options, secrets.token_hex(16)
        hello = {"for": self._purpose, "rank": self.rank, "size": options.size, "token": options.token}
        hello |= {"port": 20000 + self.rank} if self._purpose == "rendezvous" else {"left": None}
        sealed = proof(options.secret, "join", message.header["number"], number, hello)
        self.channel.send({"said": hello, "number": number, "proof": sealed})
        self.channel.flush()


class LightPeers:
    """The workers 1 to W - 1 of a job.

    Args:
        options: where worker 0 listens, which it may do a little later.
        purpose: ``"rendezvous"`` or ``"worker"``.
        timeouts: say how often they send heartbeats.
    """

    def __init__(self, options: RendezvousOptions, purpose: str, timeouts: Timeouts) -> None:
        # In a rendezvous a worker that sends anything has left.
        self._beat_secs = timeouts.beat_secs if purpose == "worker" else math.inf
        self._selector = selectors.DefaultSelector()
        self._number = self._next = 0
        self._num_others = options.size - 1
        self._beat_at = time.monotonic() + self._beat_secs
        self.peers: list[LightPeer] = []
        for rank in range(1, options.size):
            self.peers.append(_connected(options, rank, purpose))
            self._selector.register(self.peers[-1].channel, selectors.EVENT_READ, self.peers[-1])
            self.serve_until(lambda: True)

    def serve_until(self, is_over: Callable[[], bool], limit_secs: float = 300.0) -> None:
        """Read, write and send heartbeats until something is true."""
        until = time.monotonic() + limit_secs
        while True:
            for key, _ in self._selector.select(
                0.0 if is_over() else max(min(self._beat_at - time.monotonic(), 0.05), 0.0)
            ):
                try:
                    key.data.take()
                except (EOFError, OSError):
                    self._selector.unregister(key.data.channel)
                    key.data.channel.close()
            self._beat()
            if is_over():
                return
            assert time.monotonic() < until, f"nothing more came within {limit_secs:g} s"

    def _beat(self) -> None:
        """Send the heartbeats that are due, each worker's at a time of its own."""
        while time.monotonic() >= self._beat_at:
            self._beat_at += self._beat_secs / self._num_others
            self._next = (self._next + 1) % self._num_others
            self.send({"do": "beat", "step": 0, "in_step": False}, peers=self.peers[self._next : self._next + 1])

    def send(self, header: dict[str, Any], data: bytes = b"", *, peers: Sequence[LightPeer] | None = None) -> None:
        """Send a message as each of those that are connected and admitted."""
        for peer in self.peers if peers is None else peers:
            if peer.channel.fileno() >= 0 and peer.is_admitted:
                peer.channel.send(header, data)
                peer.channel.flush()

    def gather(self, topic: str, data: bytes) -> None:
        """Take part in an exchange, all with the same value, and wait for its result."""
        self._number += 1
        self.send({"do": "gather", "number": self._number, "topic": topic, "limit": 300.0, "step": 0}, data)
        self.serve_until(lambda: self.all_have("result", number=self._number))

    def all_have(self, do: str, **entries: Any) -> bool:
        """Tell whether the last message of all that are connected is of a kind."""
        wanted = {"do": do, **entries}.items()
        return all(p.seen and wanted <= p.seen[-1].items() for p in self.peers if p.channel.fileno() >= 0)

    def close(self) -> None:
        """Close all connections."""
        for peer in self.peers:
            peer.channel.close()
        self._selector.close()


def _connected(options: RendezvousOptions, rank: int, purpose: str) -> LightPeer:
    until = time.monotonic() + options.timeout_secs
    while True:
        try:
            return LightPeer(options, rank, purpose)
        except OSError:
            if time.monotonic() > until:
                raise
        time.sleep(0.02)
