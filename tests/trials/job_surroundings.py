"""Run jobs of several processes where ports, names, clocks, networks and terminals are not as they should be.

    python -m tests.trials.job_surroundings [--cases ports names clocks network ctrl_c secrets] [--repeats 3]

The processes are started by ``tpack launch``, or by hand with the variables of another launcher; they exchange values
as a training does, without TensorFlow, and print their numbers. Names are looked up in an ``/etc/hosts`` of the trial's
own (``unshare -m``), where the system allows it; the clock of a process is changed by a module that Python loads at its
start; a network that stalls and heals is a proxy before worker 0.
"""

import argparse
import contextlib
import json
import os
import random
import re
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.helpers.source import ROOT
from tpack.multi_worker.cluster.ports import PortReservation

LIMIT_SECS = 90.0
HEARTBEAT_SECS = 3.0

WORKER = """
import os, sys, time
from tpack.multi_worker.cluster.peers import connect_peers
from tpack.multi_worker.cluster.resolver import resolve_cluster
steps, begun = int(sys.argv[1]), time.monotonic()
member = resolve_cluster(timeout_secs=15)
with connect_peers(member, heartbeat_secs={heartbeat}, straggler_secs=60, timeout_secs=15) as peers:
    print("pid", os.getpid(), flush=True)
    for step in range(steps):
        peers.note_step(step)
        assert peers.gather("step", step) == [step] * peers.size
        time.sleep(0.05)
    print("made", steps, flush=True)
"""


def environment(**more: str) -> dict[str, str]:
    """Return the variables of a process without those of a launcher."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def write_script(directory: Path) -> str:
    """Write the worker's script; return its path."""
    script = directory / "worker.py"
    script.write_text(WORKER.format(heartbeat=HEARTBEAT_SECS), encoding="utf-8")
    return str(script)


def by_hand(directory: Path, master: str, steps: int = 20, before: tuple[str, ...] = (), **of_1: str) -> list[str]:
    """Run two workers that know one address; return what each printed, with its exit code.

    Args:
        directory: for the script.
        master: the address of worker 0.
        steps: how many exchanges they make.
        before: a command before that of Python.
        **of_1: variables that worker 1 alone has.
    """
    host, _, port = master.rpartition(":")
    command = [*before, sys.executable, write_script(directory), str(steps)]
    processes = []
    for rank in ("0", "1"):
        place = {
            "RANK": rank,
            "WORLD_SIZE": "2",
            "LOCAL_RANK": rank,
            "MASTER_ADDR": host.strip("[]"),
            "MASTER_PORT": port,
        }
        variables = environment(**{**place, **(of_1 if rank == "1" else {})})
        processes.append(
            subprocess.Popen(
                command, cwd=directory, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    outputs = []
    for process in processes:
        try:
            text, _ = process.communicate(timeout=LIMIT_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            text = process.communicate()[0] + "\nTIME IS OVER"
        outputs.append(f"{text}\ncode {process.returncode}")
    return outputs


def free_port() -> int:
    """Return a port that nobody has."""
    with PortReservation() as reservation:
        return reservation.port


def last_error(text: str) -> str:
    """Return the line of the error that ended a process."""
    lines = [line for line in text.splitlines() if re.match(r"(tpack\.errors\.)?\w+Error", line)]
    return lines[-1][:300] if lines else text[-300:]


def report(name: str, is_right: bool, text: str) -> bool:
    """Print the result of a case."""
    print(f"{'ok  ' if is_right else 'FAIL'} {name}: {text}", flush=True)
    return is_right


# Ports


@contextlib.contextmanager
def server(say: bytes | None) -> Iterator[int]:
    """Give the port of another program, which says something to each client, or never a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(listener.accept()[0])
                    if say is not None:
                        held[-1].sendall(say)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def ports(directory: Path, repeats: int) -> Iterator[bool]:
    """Try ports that other programs and jobs have."""
    for name, say in (
        ("an HTTP server", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        ("ssh", b"SSH-2.0-x\r\n"),
        ("silent", None),
    ):
        with server(say) as port:
            chief, other = by_hand(directory, f"127.0.0.1:{port}")
        is_right = f"worker 0 cannot listen at 127.0.0.1:{port}" in chief and "set MASTER_PORT to another one" in chief
        is_right = is_right and ("another program has the port" in other or "lost worker 0" in other)
        yield report(f"a port in use by {name}", is_right, f"worker 1: {last_error(other)}")
    port, found = free_port(), []
    jobs = [
        threading.Thread(
            target=lambda name=name: found.extend(by_hand(directory, f"127.0.0.1:{port}", SLURM_JOB_ID=name))
        )
        for name in ("7", "8")
    ]
    for job in jobs:
        job.start()
        time.sleep(0.5)
    for job in jobs:
        job.join()
    num_made = sum("made 20" in text for text in found)
    texts = [last_error(text) for text in found if "made" not in text]
    yield report("two jobs on one port", num_made == 2, f"{num_made} workers of 4 made their steps; {texts}")


# Names


def names(directory: Path, repeats: int) -> Iterator[bool]:
    """Try names of machines that /etc/hosts has as they should not be."""
    host = "trial-host"
    cases = {
        "a name of 127.0.1.1, as Debian has": f"127.0.0.1 localhost\n127.0.1.1 {host}\n",
        "a name of ::1 first": f"127.0.0.1 localhost\n::1 {host}\n127.0.0.1 {host}\n",
        "a name twice": f"127.0.0.1 localhost\n127.0.0.2 {host}\n127.0.0.3 {host}\n",
        "localhost of ::1 alone": f"::1 localhost {host}\n",
        "a name of another machine": f"127.0.0.1 localhost\n192.0.2.1 {host}\n",
        "a name that is not known": "127.0.0.1 localhost\n",
        "comments, tabs and no end of line": f"# x\n127.0.0.1\tlocalhost\t{host} # {host}",
    }
    failing = {"a name of another machine": "cannot listen at", "a name that is not known": "is not known here"}
    for name, text in cases.items():
        (directory / "hosts").write_text(text, encoding="utf-8")
        inside = f'mount --bind {directory}/hosts /etc/hosts && exec "$0" "$@"'
        chief, other = by_hand(directory, f"{host}:{free_port()}", before=("unshare", "-m", "sh", "-c", inside))
        wanted = failing.get(name, "made 20")
        is_right = wanted in chief and (name in failing or wanted in other)
        yield report(
            name, is_right, "trained" if "made 20" in chief + other else f"{last_error(chief)} | {last_error(other)}"
        )


# Clocks


CLOCK = """
import os, time
_now, _shift, _jump = time.time, float(os.environ["SHIFT"]), float(os.environ["JUMP"])
_begun = time.monotonic()
def _time():
    return _now() + _shift + (_jump if time.monotonic() > _begun + 1.5 else 0.0)
time.time = _time
time.time_ns = lambda: int(1e9 * _time())
"""


def clocks(directory: Path, repeats: int) -> Iterator[bool]:
    """Try clocks that are wrong, and that jump, in worker 1."""
    (directory / "clock").mkdir()
    (directory / "clock" / "sitecustomize.py").write_text(CLOCK, encoding="utf-8")
    for shift, jump in ((3600, 0), (-86400, 0), (0, 7200), (0, -7200), (-1.7e9, 0), (3.0e9, 0)):
        variables = {"PYTHONPATH": f"{directory / 'clock'}:{ROOT}", "SHIFT": str(shift), "JUMP": str(jump)}
        began = time.monotonic()
        chief, other = by_hand(directory, f"127.0.0.1:{free_port()}", 60, **variables)
        is_right = "made 60" in chief and "made 60" in other
        text = f"all 60 exchanges after {time.monotonic() - began:.1f} s" if is_right else last_error(chief + other)
        yield report(f"a clock {shift:+g} s off that jumps by {jump:+g} s", is_right, text)


# Networks


class Proxy:
    """A network between worker 1 and worker 0, which can stall and heal."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.is_open = True
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        with near, far, selectors.DefaultSelector() as selector, contextlib.suppress(OSError):
            for end, to in ((near, far), (far, near)):
                selector.register(end, selectors.EVENT_READ, to)
            while True:
                if not self.is_open:
                    time.sleep(0.02)
                    continue
                for key, _ in selector.select(0.1):
                    data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                    if not data:
                        return
                    key.data.sendall(data)

    def close(self) -> None:
        """Accept nothing more."""
        self._listener.close()


def network(directory: Path, repeats: int) -> Iterator[bool]:
    """Cut the network of worker 1, or stop a worker, for a shorter and a longer time than the heartbeat."""
    for how in ("cut", "stop 1", "stop 0"):
        for share in (0.5, 2.0) * repeats:
            port = free_port()
            proxy = Proxy(port)
            found: list[str] = []
            addresses = {"MASTER_PORT": str(proxy.port)} if how == "cut" else {}

            def run(found: list[str] = found, port: int = port, addresses: dict[str, str] = addresses) -> None:
                found.extend(by_hand(directory, f"127.0.0.1:{port}", 120, **addresses))

            job = threading.Thread(target=run)
            job.start()
            time.sleep(3.5)
            disturb(how, share * HEARTBEAT_SECS, proxy, directory)
            job.join()
            proxy.close()
            goes_on = all("made 120" in text for text in found)
            named = [re.search(r"worker \d was (lost|stopped)[^.;]*", text) for text in found]
            texts = [each[0] if each else last_error(text) for each, text in zip(named, found, strict=True)]
            is_right = goes_on if share < 1 else (not goes_on and all(named))
            name = f"{how} for {share:g} heartbeats of {HEARTBEAT_SECS:g} s"
            yield report(name, is_right, "went on" if goes_on else str(texts))


def disturb(how: str, secs: float, proxy: Proxy, directory: Path) -> None:
    """Cut the network, or stop a worker, for a time."""
    if how == "cut":
        proxy.is_open = False
        time.sleep(secs)
        proxy.is_open = True
        return
    for process in psutil.process_iter(["cmdline", "environ"]):
        command, variables = process.info["cmdline"] or [], process.info["environ"] or {}
        if str(directory / "worker.py") in command and variables.get("RANK") == how[-1]:
            process.suspend()
            time.sleep(secs)
            process.resume()


# The terminal


def launched(directory: Path, steps: int, **more: str) -> "subprocess.Popen[str]":
    """Start a job of three workers by ``tpack launch``, in a process group of its own as a terminal's job."""
    command = [sys.executable, "-m", "tpack", "launch", "-n", "3", "--grace", "5", "--log-dir", str(directory / "logs")]
    return subprocess.Popen(
        [*command, write_script(directory), str(steps)],
        cwd=directory,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ctrl_c(directory: Path, repeats: int) -> Iterator[bool]:
    """Press Ctrl-C, once to three times, at random moments from the start on; nothing may be left."""
    for number in range(4 * repeats):
        job = launched(directory, 100_000)
        moment, presses = random.uniform(0.05, 4.0), number % 3 + 1
        time.sleep(moment)
        family = [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]
        began = time.monotonic()
        for _ in range(presses):
            # A terminal sends it to all of the group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGINT)
            time.sleep(0.2)
        try:
            text, _ = job.communicate(timeout=LIMIT_SECS)
        except subprocess.TimeoutExpired:
            job.kill()
            text = job.communicate()[0]
        secs = time.monotonic() - began
        left = [each for each in family if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
        # At the start of Python and at its end it is an error of its own, or ends the process by the signal.
        is_early = "tpack launch" not in text and text.rstrip().endswith("KeyboardInterrupt")
        is_right = (is_early or job.returncode in (130, -signal.SIGINT)) and not left and secs < 15
        name = f"{presses} times Ctrl-C after {moment:.1f} s"
        shown = "" if is_right and job.returncode == 130 else f": {text[-300:]}"
        yield report(name, is_right, f"code {job.returncode} after {secs:.1f} s, {len(left)} processes left{shown}")


# Secrets


def secrets_(directory: Path, repeats: int) -> Iterator[bool]:
    """Look for the secret wherever another user, or a reader of logs, could see it."""
    for given in (None, secrets.token_hex(32)):
        more = {} if given is None else {"TPACK_CLUSTER_SECRET": given}
        job = launched(directory, 100_000, **more)
        commands, known = [], {given} - {None}
        until = time.monotonic() + 8.0
        while time.monotonic() < until:
            for process in [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    commands.append(" ".join(process.cmdline()))
                    known.add(process.environ().get("TPACK_CLUSTER_SECRET"))
            time.sleep(0.05)
        workers = [
            each for each in psutil.Process(job.pid).children(recursive=True) if "worker.py" in str(each.cmdline())
        ]
        # The others find out, and end with tracebacks.
        workers[-1].suspend()
        text, _ = job.communicate(timeout=LIMIT_SECS)
        written = [path.read_text(errors="replace") for path in (directory / "logs").rglob("*") if path.is_file()]
        shown = json.dumps([commands, text, written])
        found = [each for each in known - {None} if each in shown]
        is_right = bool(known - {None}) and not found and "PeerLostError" in text
        name = "the job's own secret" if given is None else "a secret of the environment"
        what = f"in {len(set(commands))} command lines, {len(text)} characters of output and {len(written)} files"
        what += "" if is_right else f": {text}"
        yield report(f"{name} after the loss of a worker", is_right, f"found {len(found)} times {what}")


CASES: dict[str, Callable[[Path, int], Iterator[bool]]] = {
    "ports": ports,
    "names": names,
    "clocks": clocks,
    "network": network,
    "ctrl_c": ctrl_c,
    "secrets": secrets_,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options: Any = parser.parse_args()
    random.seed(options.seed)
    results = []
    for case in options.cases:
        with tempfile.TemporaryDirectory() as directory:
            results += list(CASES[case](Path(directory), options.repeats))
    print(f"{sum(results)} of {len(results)} right")
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
