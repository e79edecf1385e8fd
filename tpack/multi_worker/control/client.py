"""Client of the control channel: a worker's connection to worker 0.

A thread sends heartbeats with the current step, and detects the loss of worker 0. Whoever waits for a message waits
here, until it arrives or an error does.
"""

import math
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from tpack.errors import ClusterError, PeerLostError
from tpack.multi_worker.control.messages import Channel, ControlMessage, Waker
from tpack.multi_worker.control.server import Timeouts, lost_connection
from tpack.utils import logger


class ControlClient:
    """The connection of one worker.

    Args:
        connection: to worker 0, after the handshake.
        size: the number of workers.
        limits: the timeouts.
        on_closed: called when it is closed.

    Attributes:
        step: the current step; written by the trainer.
        error: the first error, or None.
    """

    def __init__(
        self, connection: socket.socket, size: int, limits: Timeouts, *, on_closed: Callable[[], None] | None = None
    ) -> None:
        self.step = 0
        self.error: ClusterError | None = None
        self._limits = limits
        self._on_closed = on_closed
        self._channel = Channel(connection, size * limits.largest)
        self._changed = threading.Condition()
        self._heard: set[str] = set()
        self._results: dict[int, list[bytes]] = {}
        self._functions: list[Callable[[ClusterError], None]] = []
        self._is_closing = False
        self._whom: Callable[[], Iterable[int]] | None = None
        self._seen = (0, time.monotonic())
        self._waker = Waker()
        self._thread = threading.Thread(target=self._serve, name="peers line", daemon=True)
        self._thread.start()

    def send(self, header: dict[str, Any], data: bytes = b"") -> None:
        """Send a message, in the thread."""
        self._channel.send({**header, "step": self.step}, data)
        self._waker.wake()

    def wait_until_heard(self, what: str, secs: float) -> bool:
        """Wait for a message or an error; return whether the message has arrived.

        Args:
            what: the kind of the message.
            secs: the timeout.
        """
        with self._changed:
            self._changed.wait_for(lambda: what in self._heard or self.error is not None, secs)
            return what in self._heard

    def wait_for_result(self, number: int, secs: float) -> list[bytes] | None:
        """Wait for the values of an exchange; None if they did not arrive.

        Args:
            number: that of the exchange.
            secs: the timeout.
        """
        with self._changed:
            self._changed.wait_for(lambda: number in self._results or self.error is not None, secs)
            return self._results.pop(number, None)

    def wait_for_error(self, secs: float) -> bool:
        """Wait for an error; return whether there is one."""
        with self._changed:
            return self._changed.wait_for(lambda: self.error is not None, secs)

    def on_error(self, function: Callable[[ClusterError], None]) -> None:
        """Call a function at the first error, in a thread of its own; at once if there is one already."""
        with self._changed:
            self._functions.append(function)
            error = self.error
        if error is not None:
            self._call(function, error)

    def on_stall(self, whom: Callable[[], Iterable[int]]) -> None:
        """Call a function, in a thread of its own, when a step takes longer than `straggler_secs`.

        Args:
            whom: returns the ranks of the workers that this one waits for.
        """
        self._whom = whom

    def close(self) -> None:
        """Stop, and close the connection."""
        self._is_closing = True
        self._waker.wake()
        self._thread.join()
        if self._on_closed is not None:
            self._on_closed()

    # The thread.

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, self._channel.events)
            selector.register(self._waker, selectors.EVENT_READ)
            try:
                self._listen(selector)
            finally:
                self._channel.close()
                self._waker.close()

    def _listen(self, selector: selectors.BaseSelector) -> None:
        beat_at = looked_at = time.monotonic()
        while not self._is_closing:
            selector.modify(self._channel, self._channel.events)
            ready = {key.fileobj for key, _ in selector.select(max(beat_at - time.monotonic(), 0.0))}
            if self._waker in ready:
                self._waker.clear()
            try:
                for message in self._channel.receive():
                    self._do(message)
                if time.monotonic() >= beat_at:
                    beat_at = time.monotonic() + self._limits.beat_secs
                    self._channel.send({"do": "beat", "step": self.step})
                    self._look_at_step()
                self._channel.flush()
            except (EOFError, OSError, ValueError, KeyError, TypeError) as error:
                self._lose_worker_0(error)
                return
            if time.monotonic() > looked_at + self._limits.heartbeat_secs / 2:
                # This process itself was stopped, or got no CPU time: the silence may be its own.
                self._channel.heard_at = time.monotonic()
            looked_at = time.monotonic()
            if looked_at > self._channel.heard_at + self._limits.heartbeat_secs:
                self._fail(
                    PeerLostError(
                        f"worker 0 was lost: no heartbeat for {self._limits.heartbeat_secs:g} s. It is stopped, or "
                        "hangs, or its network to this worker is down",
                        (0,),
                    )
                )
                return

    def _look_at_step(self) -> None:
        """Report the workers that this one waits for, once in a step that takes too long."""
        step, since = self._seen
        if step != self.step:
            self._seen = (self.step, time.monotonic())
        elif self._whom is not None and time.monotonic() > since + self._limits.straggler_secs:
            self._seen = (step, math.inf)
            whom = self._whom
            threading.Thread(
                target=lambda: self.send({"do": "stalled", "ranks": sorted(whom())}), name="stalled", daemon=True
            ).start()

    def _lose_worker_0(self, error: Exception) -> None:
        if not self._is_closing and "over" not in self._heard:
            self._fail(PeerLostError(lost_connection("worker 0", error), (0,)))

    def _do(self, message: ControlMessage) -> None:
        said = message.header
        if said["do"] == "result":
            values, start = [], 0
            for size in said["sizes"]:
                values.append(message.data[start : start + size])
                start += size
            with self._changed:
                self._results[said["number"]] = values
                self._changed.notify_all()
        elif said["do"] == "lost":
            ranks = tuple(said["ranks"])
            self._fail(PeerLostError(said["text"], ranks) if ranks else ClusterError(said["text"]))
        elif said["do"] == "slow":
            logger.warning(f"Cluster: {said['text']}.")
        else:
            with self._changed:
                self._heard.add(said["do"])
                self._changed.notify_all()

    def _fail(self, error: ClusterError) -> None:
        with self._changed:
            if self.error is not None:
                return
            self.error = error
            functions = list(self._functions)
            self._changed.notify_all()
        for function in functions:
            self._call(function, error)

    def _call(self, function: Callable[[ClusterError], None], error: ClusterError) -> None:
        threading.Thread(target=function, args=(error,), name="peer lost", daemon=True).start()
