"""The processes of a group, and the channels that lead to them.

They are kept apart from the group itself, so that they can be ended when it is garbage collected.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tpack.dataflow.parallel.payload import write_payload
from tpack.dataflow.parallel.start_method import StartMethod, check_fork
from tpack.dataflow.parallel.transport.receiver import Receiver
from tpack.dataflow.parallel.transport.sender import Sender
from tpack.dataflow.parallel.workers.bootstrap import Serve, run_worker
from tpack.dataflow.parallel.workers.child import Child, Task, fork_child, spawn_child


@dataclass(frozen=True)
class GroupOptions:
    """How to run workers.

    Attributes:
        num_workers: how many.
        results: how many data points of a worker may wait.
        jobs: how many data points for a worker may wait.
        timeout: for how many seconds a worker that has begun may say nothing while something is expected of it; None is
            for ever.
        start_method: how they are started.
        seed: what their random numbers come from; worker k has ``seed + k``.
    """

    num_workers: int
    results: int
    jobs: int
    timeout: float | None
    start_method: StartMethod
    seed: int


class Members:
    """The processes of a group and what leads to them."""

    def __init__(self) -> None:
        """Have none."""
        self.children: list[Child] = []
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []
        self._lifelines: list[int] = []
        self._owner_pid = os.getpid()

    def start(self, owner: str, serve: Serve, arguments: tuple[Any, ...], options: GroupOptions) -> None:
        """Start the processes.

        Args:
            owner: whose workers they are, for their names and messages.
            serve: the function that they run.
            arguments: its arguments after the link.
            options: how to run them.

        Raises:
            ConfigError: The arguments cannot be pickled, or a fork would be dangerous.
        """
        if options.start_method == "fork":
            check_fork(owner)
            for index in range(options.num_workers):
                self._start_one(owner, index, options, partial(self._fork, (serve, arguments)))
            return
        with write_payload(owner, (serve, arguments)) as payload:
            for index in range(options.num_workers):
                self._start_one(owner, index, options, partial(spawn_child, payload=payload))

    def _start_one(self, owner: str, index: int, options: GroupOptions, start: Callable[[Task], Child]) -> None:
        """Make the channels of one worker, and start it."""
        results_here, results_there = socket.socketpair()
        jobs_here, jobs_there = socket.socketpair()
        lifeline_there, lifeline_here = os.pipe()
        self.receivers.append(Receiver(results_here))
        self.senders.append(Sender(jobs_here, options.jobs, has_flusher=False))
        self._lifelines.append(lifeline_here)
        with contextlib.closing(results_there), contextlib.closing(jobs_there):
            try:
                self.children.append(
                    start(
                        Task(
                            name=f"{owner}-{index}",
                            index=index,
                            capacity=options.results,
                            seed=(options.seed + index) % 2**32,
                            results=results_there.fileno(),
                            jobs=jobs_there.fileno(),
                            lifeline=lifeline_there,
                        )
                    )
                )
            finally:
                os.close(lifeline_there)

    def _fork(self, work: tuple[Serve, tuple[Any, ...]], task: Task) -> Child:
        """Start a fork, which must not hold the ends that belong to this process."""
        ends = [receiver.fileno() for receiver in self.receivers] + [sender.fileno() for sender in self.senders]
        return fork_child(lambda: run_worker(task, lambda: work), [*ends, *self._lifelines])

    def end(self) -> None:
        """End the processes; in a fork of their owner, do nothing."""
        if os.getpid() != self._owner_pid:
            return
        for child in self.children:
            child.signal(signal.SIGTERM)
        for child in self.children:
            child.end()
        for receiver in self.receivers:
            receiver.close()
        for sender in self.senders:
            sender.close()
        for lifeline in self._lifelines:
            os.close(lifeline)
