"""Client of the control channel: a worker's connection to worker 0.

A thread sends heartbeats with the current step, receives messages, and detects the loss of worker 0.
"""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from tpack.errors import ClusterError, PeerLostError
from tpack.multi_worker.control.messages import (
    Channel,
    ControlMessage,
    Timeouts,
    Waker,
    lost_connection,
    silent_peer,
    values_of,
)
from tpack.utils import logger


class ControlClient:
    """Connection of one worker to worker 0.

    Args:
        connection: the socket, after the handshake.
        size: the number of workers.
        timeouts: those of the channel.
        on_closed: called when it is closed.

    Attributes:
        step: the current step, and whether it runs; written by the trainer.
        error: the first error, or None.
    """

    def __init__(
        self, connection: socket.socket, size: int, timeouts: Timeouts, *, on_closed: Callable[[], None] = lambda: None
    ) -> None:
        self.step = 0
        self.is_in_step = False
        self.error: ClusterError | None = None
        self._timeouts = timeouts
        self._on_closed = on_closed
        self._channel = Channel(connection, size * timeouts.largest)
        self._changed = threading.Condition()
        self._received: set[str] = set()
        self._results: dict[int, list[bytes]] = {}
        self._is_closing = self._is_over = self._looks = False
        self._missing_ranks: Callable[[], Iterable[int]] | None = None
        self._step_since = (0, time.monotonic())
        self._waker = Waker()
        self._thread = threading.Thread(target=self._serve, name="control client", daemon=True)
        self._thread.start()

    def send(self, header: dict[str, Any], data: bytes = b"") -> None:
        """Send a message, in the thread."""
        self._channel.send({**header, "step": self.step, "in_step": self.is_in_step}, data)
        self._waker.wake()

    def wait_for(self, kind: str, secs: float) -> bool:
        """Wait for a message of a kind, or an error; return whether the message has arrived."""
        with self._changed:
            self._changed.wait_for(lambda: kind in self._received or self.error is not None, secs)
            return kind in self._received

    def wait_for_result(self, number: int, secs: float) -> list[bytes] | None:
        """Wait for the values of exchange ``number``; None if they did not arrive."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._results or self.error is not None, secs)
            return self._results.pop(number, None)

    def wait_for_error(self, secs: float) -> bool:
        """Wait for an error; return whether there is one."""
        with self._changed:
            return self._changed.wait_for(lambda: self.error is not None, secs)

    def on_error(self, function: Callable[[ClusterError], None]) -> None:
        """Call a function at the first error, in a thread of its own; at once if there is one already.

        The thread is started here: after an error there may be none left.
        """

        def wait_and_call() -> None:
            with self._changed:
                self._changed.wait_for(lambda: self.error is not None or self._is_over)
            if self.error is not None:
                function(self.error)

        threading.Thread(target=wait_and_call, name="control client", daemon=True).start()

    def on_stall(self, missing_ranks: Callable[[], Iterable[int]]) -> None:
        """Call a function for the ranks that this worker waits for when a step takes longer than `straggler_secs`.

        It is called again and again, in a thread of its own.
        """
        self._missing_ranks = missing_ranks

    def close(self) -> None:
        """Stop, and close the connection."""
        self._is_closing = True
        self._waker.wake()
        self._thread.join()
        self._on_closed()

    # The thread.

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, self._channel.events)
            selector.register(self._waker, selectors.EVENT_READ)
            try:
                self._loop(selector)
            except Exception as error:
                text = f"the control channel of this worker ended by an error ({type(error).__name__}: {error})"
                self._fail(ClusterError(text))
            finally:
                self._channel.close()
                self._waker.close()
                with self._changed:
                    self._is_over = True
                    self._changed.notify_all()

    def _loop(self, selector: selectors.BaseSelector) -> None:
        silence_secs = self._timeouts.heartbeat_secs
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
                    beat_at = time.monotonic() + self._timeouts.beat_secs
                    self._channel.send({"do": "beat", "step": self.step, "in_step": self.is_in_step})
                    self._report_stall()
                self._channel.flush()
            except (EOFError, OSError, ValueError, KeyError, TypeError) as error:
                self._lose_worker_0(error)
                return
            if time.monotonic() > looked_at + silence_secs / 2:
                # This process itself was stopped, or got no CPU time: the silence may be its own.
                self._channel.heard_at = time.monotonic()
            looked_at = time.monotonic()
            if looked_at > self._channel.heard_at + silence_secs:
                self._fail(PeerLostError(silent_peer("worker 0", silence_secs, "this worker"), (0,)))
                return

    def _lose_worker_0(self, error: Exception) -> None:
        if not self._is_closing and "over" not in self._received:
            self._fail(PeerLostError(lost_connection("worker 0", error), (0,)))

    def _report_stall(self) -> None:
        """Report the workers that this one waits for, with each heartbeat in a step that takes too long."""
        step, since = self._step_since
        ranks = self._missing_ranks
        if step != self.step:
            self._step_since = (self.step, time.monotonic())
        elif ranks is not None and not self._looks and time.monotonic() > since + self._timeouts.straggler_secs:
            # Without a thread, the next heartbeat tries again.
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=self._look, args=(ranks,), name="control client", daemon=True).start()

    def _look(self, missing_ranks: Callable[[], Iterable[int]]) -> None:
        self._looks = True
        try:
            self.send({"do": "stalled", "ranks": sorted(missing_ranks())})
        finally:
            self._looks = False

    def _do(self, message: ControlMessage) -> None:
        header = message.header
        if header["do"] == "result":
            with self._changed:
                self._results[header["number"]] = values_of(message)
                self._changed.notify_all()
        elif header["do"] == "lost":
            ranks = tuple(header["ranks"])
            self._fail(PeerLostError(header["text"], ranks) if ranks else ClusterError(header["text"]))
        elif header["do"] == "slow":
            logger.warning(f"Cluster: {header['text']}.")
        else:
            with self._changed:
                self._received.add(header["do"])
                self._changed.notify_all()

    def _fail(self, error: ClusterError) -> None:
        with self._changed:
            # The others end after a failure of this worker, which is not their fault.
            if "heard" not in self._received:
                self.error = self.error or error
            self._changed.notify_all()
