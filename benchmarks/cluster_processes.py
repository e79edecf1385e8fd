"""Processes of one machine that act as a cluster of several, for the benchmarks: one row, measured by all of them.

A row has a process for each worker. A `Row` starts them, tells all of them at once to run a round, and waits for what
each has measured, never longer than it was allowed to. Between two rounds the processes wait and use nothing.

They are forks of this process, which has loaded what they import and has started nothing of it; or, for another
framework, processes of another interpreter.
"""

import contextlib
import functools
import json
import multiprocessing
import os
import runpy
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cluster_line import MARK

from tpack.multi_worker.cluster.ports import PortReservation
from tpack.utils.addresses import LOOPBACK

LIMIT_SECS = 120


class Row:
    """The processes of one row.

    Args:
        script: the file that each of them runs, with its rank and all addresses before ``arguments``.
        size: how many there are.
        arguments: the same for all.
        stack: ends them.
        python: the interpreter that runs the script; by default forks of this process do.
        num_silent: how many more there are that are never asked, such as parameter servers.
        wire: the `cluster_wire.Wire` that connects them; by default the loopback interface does.
    """

    def __init__(self, script, size, arguments, *, stack, python=None, num_silent=0, wire=None):
        reservations = [stack.enter_context(PortReservation()) for _ in range(size + num_silent)]
        hosts = wire.hosts if wire else [LOOPBACK] * len(reservations)
        addresses = ",".join(f"{host}:{each.port}" for host, each in zip(hosts, reservations, strict=True))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._size, self._logs, self._processes, self._texts = size, [], [], [""] * size
        stack.callback(self._end)
        for rank in range(size + num_silent):
            self._logs.append(folder / f"{rank}.txt")
            command = [str(script), str(rank), addresses, *map(str, arguments)]
            enter = functools.partial(wire.enter, rank) if wire else None
            self._processes.append(_Process(command, self._logs[-1], python, enter))

    def answers(self, limit_secs=LIMIT_SECS):
        """Return the next value that each process writes; raise `RuntimeError` when one has ended or says nothing."""
        end = time.monotonic() + limit_secs
        return [self._answer(rank, end) for rank in range(self._size)]

    def ask(self, request, limit_secs=LIMIT_SECS):
        """Send all processes a request and return their answers."""
        for process in self._processes[: self._size]:
            # One that has ended is told of by what follows.
            with contextlib.suppress(BrokenPipeError):
                os.write(process.input, json.dumps(request).encode() + b"\n")
        return self.answers(limit_secs)

    def _answer(self, rank, end):
        output = self._processes[rank].output
        while True:
            for line in iter(functools.partial(self._line, rank), None):
                if line.startswith(MARK):
                    return json.loads(line[len(MARK) :])
            if not select.select([output], [], [], max(0.0, end - time.monotonic()))[0]:
                raise RuntimeError(f"process {rank} did not answer in time: {self._last_words(rank)}")
            arrived = os.read(output, 1 << 16)
            if not arrived:
                raise RuntimeError(f"process {rank} has ended: {self._last_words(rank)}")
            self._texts[rank] += arrived.decode()

    def _line(self, rank):
        """Return the next whole line that has arrived; None if there is none."""
        line, end, rest = self._texts[rank].partition("\n")
        if end:
            self._texts[rank] = rest
        return line if end else None

    def _last_words(self, rank):
        lines = self._logs[rank].read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return next((line for line in reversed(lines) if "Error" in line), lines[-1] if lines else "nothing was said")

    def _end(self):
        for process in self._processes:
            process.end()


class _Process:
    """One process, with pipes to its input and from its output, and its errors in a file.

    It calls `enter`, if there is one, before all else.
    """

    def __init__(self, command, log, python, enter):
        input_here, output_here = os.pipe(), os.pipe()
        self.input, self.output = input_here[1], output_here[0]
        with log.open("wb") as errors:
            theirs = (input_here[0], output_here[1], errors.fileno())
            if python is None:
                self._process = multiprocessing.get_context("fork").Process(
                    target=_become, args=(command, theirs, enter)
                )
                self._process.start()
                self._wait = self._process.join
            else:
                streams = dict(zip(("stdin", "stdout", "stderr"), theirs, strict=True))
                self._process = subprocess.Popen([python, *command], preexec_fn=enter, **streams)
                self._wait = self._process.wait
        os.close(input_here[0])
        os.close(output_here[1])

    def end(self):
        # What has been told to work may never look at its input again, since it waits for others.
        self._process.kill()
        self._wait()
        os.close(self.input)
        os.close(self.output)


def _become(command, descriptors, enter):
    """Run a script in a fork as if an interpreter had been started with it."""
    for own, given in enumerate(descriptors):
        os.dup2(given, own)
    if enter:
        enter()
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")
