"""Where workers come to worker 0 for their line to each other: who is one of them is let in, others are told why not.

A stranger changes nothing, and keeps nobody waiting: each that comes is talked to in a thread of its own.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

from tpack.multi_worker.control.handshake import (
    Rejected,
    RendezvousOptions,
    challenge,
    check_newcomer,
    listen,
    proof,
    receive,
    send,
)
from tpack.multi_worker.control.messages import close_in_children


class Door:
    """Listens where workers come to, until it is closed.

    Args:
        point: where.
        deadline: until when the name of the machine may be unknown.
        has_ended: tells whether a worker, by its number, was there and has ended in order.
        comes: is called in another thread for each that is let in, with its number and connection.

    Attributes:
        refused: what was said to those that were not let in.

    Raises:
        ClusterError: It cannot listen there.
    """

    def __init__(
        self,
        point: RendezvousOptions,
        deadline: float,
        *,
        has_ended: Callable[[int], bool],
        comes: Callable[[int, socket.socket], None],
    ) -> None:
        self.refused: list[str] = []
        self._point = point
        self._has_ended = has_ended
        self._comes = comes
        self._lock = threading.Lock()
        # The number of the line of each that is there; worker 0 is there from the beginning, and does not come.
        self._there: dict[int, str | None] = {0: None}
        self._listener = listen(point, deadline)
        self._listener.setblocking(False)
        close_in_children(self._listener)

    def fileno(self) -> int:
        """Return the descriptor that is readable when somebody comes."""
        return self._listener.fileno()

    def open(self) -> None:
        """Talk to who has come, in a thread of its own."""
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            threading.Thread(target=self._meet, args=(connection,), name="peers door", daemon=True).start()

    def close(self) -> None:
        """Let nobody in any more."""
        self._listener.close()

    def _meet(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        try:
            number = challenge(connection, self._point)
            told = receive(connection)
            said = check_newcomer(connection, self._point, told, number)
            rank = int(said["rank"])
            numbers = (str(told["number"]), number)
            self._note(rank, said, numbers[0])
            self._let_in(connection, rank, numbers)
        except OSError:
            connection.close()
        except (ValueError, TypeError, KeyError) as error:
            self._refuse(connection, f"what it said cannot be read ({error})")
        except Rejected as refusal:
            self._refuse(connection, str(refusal))

    def _note(self, rank: int, said: dict[str, Any], line: str) -> None:
        """Note that a worker is there, which it may be once at a time.

        Args:
            rank: its number.
            said: what it says.
            line: the number of the line that it is to have.
        """
        if said["for"] == "meeting":
            raise Rejected(
                f"the {self._point.size} workers of this job have met already, worker {rank} among them: it comes "
                "twice or too late, or another job has the port; a worker cannot come back while the others go on"
            )
        if self._has_ended(rank):
            # It begins a training anew, while others still leave the one before.
            raise Rejected("again")
        with self._lock:
            if rank in self._there and said.get("left") is not None and said["left"] == self._there[rank]:
                # The same, where a training has failed: its line may have ended without an end being heard of here.
                raise Rejected("again")
            if rank in self._there:
                raise Rejected(f"worker {rank} is there already: it comes twice, or another job has the port")
            self._there[rank] = line

    def _let_in(self, connection: socket.socket, rank: int, numbers: tuple[str, str]) -> None:
        answer = {"let_in": rank}
        try:
            send(connection, {**answer, "proof": proof(self._point.secret, "line", *numbers, answer)})
        except OSError:
            # It has gone, and may come again.
            with self._lock:
                del self._there[rank]
            raise
        self._comes(rank, connection)

    def _refuse(self, connection: socket.socket, why: str) -> None:
        with connection, contextlib.suppress(OSError):
            self.refused.append(f"{connection.getpeername()[0]}: {why}")
            send(connection, {"refused": why})
