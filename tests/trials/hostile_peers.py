"""Attack the control channel of a job by peers that do not know its secret, and lose a worker meanwhile.

    python -m tests.trials.hostile_peers [--secs 20] [--heartbeat 10] [--files 256]

Three workers exchange values. Once they are connected, none of them can start a thread: as user nobody with an
RLIMIT_NPROC of 1 where this runs as root, and by a patch of `threading.Thread.start` elsewhere. Then hundreds of
strangers connect to worker 0 at once: silent ones, ones that send a byte every 5 s, bodies of 16 MiB, JSON that is
nested 100,000 deep, garbage, wrong secrets, replays of an overheard handshake, and connections that come and go as fast
as they can. During the attack exchanges have to go on, and the threads, descriptors and memory of worker 0 to stay
within limits; then worker 2 is killed or stopped, and both others have to name it in time. In a last job worker 2 comes
when the attack has begun.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import secrets
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

from tests.helpers.peer_groups import member_of
from tests.helpers.source import ROOT
from tpack.errors import ClusterError
from tpack.multi_worker.cluster.peers import connect_peers
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.control.handshake import RendezvousOptions, proof
from tpack.multi_worker.control.messages import receive_now, send_now

SIZE, NOBODY = 3, 65534
SILENT, SLOW, BIG, NESTED, GARBAGE, WRONG = 400, 60, 60, 60, 200, 100
BYTE_EVERY_SECS = 5.0
BIG_BYTES = 16 << 20
# What worker 0 may take beyond what it had before the attack.
MOST_THREADS, MOST_BYTES = 0, 24 << 20


# A worker


def allow_no_threads() -> str:
    """Keep this process from starting threads; return the way."""
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        way = "RLIMIT_NPROC"
    else:

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        threading.Thread.start = refuse  # type: ignore[method-assign]
        way = "a patch"
    try:
        threading.Thread(target=print, daemon=True).start()
    except RuntimeError:
        return way
    raise AssertionError("a thread could be started")


def work(rank: int, master: str, secret: str, heartbeat_secs: float) -> None:
    """Exchange values until a worker is lost; print what happens, as JSON."""
    options = RendezvousOptions(master, SIZE, "job", secret, 60.0)
    member = member_of(options, rank)
    peers = connect_peers(member, heartbeat_secs=heartbeat_secs, straggler_secs=2 * heartbeat_secs)
    say(rank=rank, connected=True, way=allow_no_threads())
    slowest = said_at = 0.0
    try:
        while True:
            began = time.monotonic()
            peers.gather("rank", rank)
            slowest = max(slowest, time.monotonic() - began)
            if time.monotonic() > said_at + 1.0:
                say(rank=rank, slowest=slowest)
                slowest, said_at = 0.0, time.monotonic()
            time.sleep(0.01)
    except ClusterError as error:
        say(rank=rank, error=str(error), at=time.time())
    os._exit(0)


def say(**what: Any) -> None:
    """Print JSON."""
    print(json.dumps(what), flush=True)


# The attack


def frame(header_size: int, data_size: int, text: bytes) -> bytes:
    """Return a message with any sizes."""
    return struct.pack(">IQ", header_size, data_size) + text


class Attack:
    """Strangers in threads of this process."""

    def __init__(self, address: tuple[str, int], options: RendezvousOptions) -> None:
        self.counts = dict.fromkeys(("connected", "sent", "refused", "come and gone"), 0)
        self._address = address
        self._options = options
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._held: list[socket.socket] = []

    def begin(self) -> None:
        """Start all of it."""
        kinds: list[Callable[[], None]] = [self._keep_silent, self._send_slowly, self._come_and_go]
        kinds += [lambda: self._send_often(BIG, self._big), lambda: self._send_often(NESTED, self._nested)]
        kinds += [lambda: self._send_often(GARBAGE, self._garbage), lambda: self._send_often(WRONG, self._wrong)]
        kinds += [self._replay]
        for kind in kinds:
            threading.Thread(target=kind, daemon=True).start()

    def end(self) -> None:
        """Stop it."""
        self._is_over.set()
        for each in self._held:
            each.close()

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self._address, 10.0)
        self._count("connected")
        return connection

    def _count(self, what: str, number: int = 1) -> None:
        with self._lock:
            self.counts[what] += number

    def _keep_silent(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(OSError):
                self._held += [self._connect() for _ in range(SILENT)]
            self._is_over.wait(5.0)

    def _send_slowly(self) -> None:
        slow: list[socket.socket] = []
        while not self._is_over.is_set():
            with contextlib.suppress(OSError):
                while len(slow) < SLOW:
                    slow.append(self._connect())
                    slow[-1].sendall(frame(2000, 0, b'{"said": "'))
            for each in list(slow):
                try:
                    each.sendall(b"x")
                    self._count("sent")
                except OSError:
                    slow.remove(each)
            self._is_over.wait(BYTE_EVERY_SECS)

    def _come_and_go(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(OSError):
                self._connect().close()
                self._count("come and gone")

    def _send_often(self, number: int, send: Callable[[socket.socket], None]) -> None:
        while not self._is_over.is_set():
            for _ in range(number):
                with contextlib.suppress(OSError, ValueError), self._connect() as connection:
                    connection.settimeout(2.0)
                    send(connection)
            self._is_over.wait(1.0)

    def _big(self, connection: socket.socket) -> None:
        connection.sendall(frame(100, BIG_BYTES, b"{" + b" " * 99))
        part = bytes(1 << 20)
        for _ in range(BIG_BYTES >> 20):
            connection.sendall(part)
            self._count("sent", len(part))

    def _nested(self, connection: socket.socket) -> None:
        text = b"[" * 100_000
        for size in (4000, len(text)):
            connection.sendall(frame(size, 0, text[:size]))
            self._count("sent", size)

    def _garbage(self, connection: socket.socket) -> None:
        connection.sendall(random.randbytes(random.randrange(1, 20_000)))

    def _wrong(self, connection: socket.socket) -> None:
        number = receive_now(connection, 2.0)["number"]
        hello = {
            "for": "worker",
            "rank": 1,
            "size": SIZE,
            "token": secrets.token_hex(random.randrange(400)),
            "left": None,
        }
        send_now(connection, {"said": hello, "number": "x", "proof": proof("the wrong secret", number, hello)})
        self._note_refusal(connection)

    def _replay(self) -> None:
        """Send the proof that a worker has sent, to be found in the network, on other connections."""
        hello = {"for": "worker", "rank": 1, "size": SIZE, "token": "job", "left": None}
        overheard = None
        while not self._is_over.is_set():
            with contextlib.suppress(OSError, ValueError), self._connect() as connection:
                number = receive_now(connection, 2.0)["number"]
                overheard = overheard or proof(self._options.secret, "join", number + "0", "x", hello)
                send_now(connection, {"said": hello, "number": "x", "proof": overheard})
                self._note_refusal(connection)
            self._is_over.wait(0.05)

    def _note_refusal(self, connection: socket.socket) -> None:
        answer = receive_now(connection, 2.0)
        assert "let_in" not in answer, answer
        self._count("refused")


# The trial


class Job:
    """Three workers, and what they print."""

    def __init__(self, heartbeat_secs: float, num_files: int) -> None:
        self._arguments = ["--heartbeat", str(heartbeat_secs), "--files", str(num_files)]
        self.secret = secrets.token_hex(16)
        with PortReservation() as reservation:
            self.address = ("127.0.0.1", reservation.port)
        self.said: dict[int, list[dict[str, Any]]] = {rank: [] for rank in range(SIZE)}
        self.processes: list[subprocess.Popen[str]] = []

    @property
    def options(self) -> RendezvousOptions:
        """Where they meet."""
        return RendezvousOptions(f"127.0.0.1:{self.address[1]}", SIZE, "job", self.secret)

    def start_next(self) -> None:
        """Start the worker of the next rank."""
        rank = len(self.processes)
        command = [sys.executable, "-m", "tests.trials.hostile_peers", *self._arguments]
        process = subprocess.Popen(
            [*command, "--rank", str(rank), "--master", f"127.0.0.1:{self.address[1]}"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TPACK_CLUSTER_SECRET": self.secret},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        threading.Thread(target=self._read, args=(rank, process), daemon=True).start()

    def _read(self, rank: int, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.said[rank].append(json.loads(line))

    def wait_until(self, key: str, ranks: range, limit_secs: float) -> None:
        """Wait until some have printed something."""
        until = time.monotonic() + limit_secs
        while not all(any(key in each for each in self.said[rank]) for rank in ranks):
            assert time.monotonic() < until, (key, self.said)
            time.sleep(0.02)

    def end(self) -> None:
        """Kill what is left."""
        for process in self.processes:
            process.kill()
            process.wait()


def come_late(heartbeat_secs: float, num_files: int) -> None:
    """Attack a job before its last worker comes, and print how long that takes."""
    job, attack = Job(heartbeat_secs, num_files), None
    try:
        for _ in range(SIZE - 1):
            job.start_next()
        while attack is None:
            with contextlib.suppress(OSError):
                socket.create_connection(job.address, 1.0).close()
                attack = Attack(job.address, job.options)
        attack.begin()
        time.sleep(5.0)
        began = time.monotonic()
        job.start_next()
        job.wait_until("connected", range(SIZE), 50.0)
        secs = time.monotonic() - began
        attack.end()
    finally:
        job.end()
    print(f"late: {attack.counts}; the last worker was connected {secs:.1f} s after its start", flush=True)


def try_once(how: str, secs: float, heartbeat_secs: float, num_files: int) -> None:
    """Attack a job, lose worker 2, and print the figures."""
    job = Job(heartbeat_secs, num_files)
    try:
        for _ in range(SIZE):
            job.start_next()
        job.wait_until("connected", range(SIZE), 120.0)
        hub = psutil.Process(job.processes[0].pid)
        time.sleep(2.0)
        threads, size = hub.num_threads(), hub.memory_info().rss
        begun = len(job.said[0])
        attack = Attack(job.address, job.options)
        attack.begin()
        most_threads = most_size = most_files = 0
        until = time.monotonic() + secs
        while time.monotonic() < until:
            most_threads = max(most_threads, hub.num_threads())
            most_size, most_files = max(most_size, hub.memory_info().rss), max(most_files, hub.num_fds())
            time.sleep(0.1)
        assert len(job.said[0]) > begun, "no exchange during the attack"
        slowest = max(each["slowest"] for each in job.said[0][begun:])
        lost_at = time.time()
        job.processes[2].send_signal(signal.SIGKILL if how == "kill" else signal.SIGSTOP)
        job.wait_until("error", range(2), 4 * heartbeat_secs + 30.0)
        errors = [next(each for each in job.said[rank] if "error" in each) for rank in range(2)]
        attack.end()
    finally:
        job.end()
    noticed = [each["at"] - lost_at for each in errors]
    print(
        f"{how}: {attack.counts}; no threads by {job.said[0][0]['way']}; worker 0 had {threads} threads and at most "
        f"{most_threads}, {size >> 20} MiB and at most {most_size >> 20}, at most {most_files} descriptors; an "
        f"exchange took at most {slowest:.2f} s; the loss was noticed after {noticed[0]:.1f} and {noticed[1]:.1f} s: "
        f"{errors[1]['error']}",
        flush=True,
    )
    assert most_threads <= threads + MOST_THREADS
    assert most_size <= size + MOST_BYTES
    assert all("worker 2 was lost" in each["error"] for each in errors), errors
    assert max(noticed) < (2.0 if how == "kill" else 1.5 * heartbeat_secs + 2.0), noticed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--secs", type=float, default=20.0)
    parser.add_argument("--heartbeat", type=float, default=10.0)
    parser.add_argument("--files", type=int, default=4096, help="the most descriptors of a worker")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--master")
    options = parser.parse_args()
    if options.rank is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (options.files, options.files))
        work(options.rank, options.master, os.environ["TPACK_CLUSTER_SECRET"], options.heartbeat)
    wanted = 2 * (SILENT + SLOW + BIG + NESTED + GARBAGE)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(wanted * 4, 8192), hard), hard))
    for how in ("kill", "stop"):
        try_once(how, options.secs, options.heartbeat, options.files)
    come_late(options.heartbeat, options.files)


if __name__ == "__main__":
    main()
