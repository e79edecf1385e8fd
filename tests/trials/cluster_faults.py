"""Let workers of a training be killed, stopped and cut off at random moments, and look at what the job makes of it.

    python -m tests.trials.cluster_faults [--faults N] [--kinds kill stop cut disk error agent] [--victims 0 1 ps]
    python -m tests.trials.cluster_faults --kinds members [--faults N]

A job of two workers, under ``tpack launch --restarts``, meets with one fault after another: each time it is to end,
name the worker that was hit, start anew, and go on from its last checkpoint. At the end it has to be at the right step,
with the weights of a job that nothing happened to, bit by bit. The time from each fault to the next step is reported.

For ``cut`` the two workers run on two machines, which this one plays (`tests.helpers.two_machines`); it is left out
where that cannot be. For ``disk`` no file of worker 0 may grow beyond a size that a checkpoint exceeds, as where a disk
is full; the next attempt has room again. ``error`` is an exception of the script, and ``agent`` a kill of the
launcher's agent, with which the machine is lost. The victim ``ps`` is a parameter server, which keeps the variables of
two workers that train synchronously. Processes are forked from a spare one, unless ``--plain`` is given, and keep
checkpoints in memory.

``members`` is a job that goes on with fewer workers after each kill and takes the lost one in again. It has to end
with the weights of runs that are started by hand with as many workers, each from the step at which one of the job's
runs began to that at which the next one did.
"""

import argparse
import json
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import tensorflow.compat.v1 as tf

from tests.helpers.killable_worker import STEPS_PER_EPOCH
from tests.helpers.source import ROOT
from tests.helpers.two_machines import TwoMachines, can_be_played, two_machines
from tpack.tfutils.checkpoint import latest_checkpoint

# Since the last line of a job.
LIMIT_SECS = 240.0
HEARTBEAT_SECS = 3.0
# How often a fault comes before the first step of an attempt, and how long after the start or the first step.
EARLY_SHARE, EARLY_SECS, LATE_SECS = 0.2, 6.0, 1.5
SMALL_FILE_BYTES = 1_000_000
SERVER, SERVER_RANK = "ps", 2
KINDS = ("kill", "stop", "cut", "disk", "error", "agent")
VICTIMS = {"disk": ["0"], "error": ["1", "0"], "cut": ["1", "0"], "agent": ["1"]}
# More attempts than a job has.
_ENDED = 1 << 30


@dataclass
class Job:
    """A running ``tpack launch``, by what it prints."""

    process: "subprocess.Popen[str]"
    directory: Path
    num_processes: int
    attempt: int = 0
    pids: dict[int, int] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def read(self) -> None:
        """Follow the output until it ends; in a thread of its own."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = re.match(r"\[(\d)(?::\w+)?\] (pid|step) (\d+)$", line.rstrip())
            with self.changed:
                if found and found[2] == "pid":
                    if int(found[1]) in self.pids:
                        self.pids, self.steps, self.attempt = {}, {}, self.attempt + 1
                    self.pids[int(found[1])] = int(found[3])
                elif found:
                    self.steps[int(found[1])] = int(found[3])
                self.changed.notify_all()
        with self.changed:
            self.attempt = _ENDED
            self.changed.notify_all()

    def wait_until(self, what: Callable[[], bool]) -> None:
        """Wait for something to be true of it, as long as it goes on."""
        with self.changed:
            while not what():
                assert not self.has_ended, said_by(self)
                assert self.changed.wait(LIMIT_SECS), (self.pids, self.steps, said_by(self))

    def wait(self) -> int:
        """Wait for its end, as long as it goes on; return the exit code."""
        self.wait_until(lambda: self.has_ended)
        return self.process.wait(LIMIT_SECS)

    @property
    def has_ended(self) -> bool:
        """Whether its output has ended."""
        return self.attempt >= _ENDED


def said_by(job: Job) -> str:
    """Return the end of what the launcher and the workers wrote to standard error."""
    return (job.directory / "errors.txt").read_text(encoding="utf-8")[-3000:]


def start(
    directory: Path,
    max_epoch: int,
    options: argparse.Namespace,
    machines: TwoMachines | None = None,
    *,
    has_server: bool = False,
    of_launch: Sequence[str] = (),
    of_script: Sequence[str] = (),
    num_workers: int = 2,
) -> Job:
    """Start a job.

    Args:
        directory: where its files go.
        max_epoch: how long it trains.
        options: of the trial.
        machines: where its workers run; None is this machine.
        has_server: whether there is a parameter server.
        of_launch: further options of the command.
        of_script: further arguments of the script.
        num_workers: how many workers there are.
    """
    directory.mkdir(parents=True, exist_ok=True)
    where = ["-n", str(num_workers), *(["--ps", "1"] if has_server else [])]
    if machines is not None:
        hosts = ",".join(f"{address}:1" for address in machines.addresses)
        where = ["--hosts", hosts, "--ssh", machines.write_ssh(directory / "ssh")]
    training = ["-m", "tests.helpers.killable_worker", str(directory / "train"), "--max-epoch", str(max_epoch)]
    training += ["--heartbeat", str(HEARTBEAT_SECS), *of_script]
    command = [sys.executable, "-m", "tpack", "launch", *where, "--grace", "10", *of_launch]
    if not options.plain:
        command += ["--preload", "tests.helpers.killable_worker"]
        training += ["--memory-every", "5"]
    command += ["--log-dir", str(directory / "logs"), *training]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TPACK_CLUSTER_SECRET": secrets.token_hex(16)}
    with open(directory / "errors.txt", "w", encoding="utf-8") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
    job = Job(process, directory, num_workers + has_server)
    threading.Thread(target=job.read, daemon=True).start()
    return job


def weights(job: Job, max_epoch: int | None) -> dict[str, np.ndarray]:
    """Return all variables of a job's last checkpoint, which has to be that of the last step."""
    assert job.wait() == 0, said_by(job)
    reader = tf.train.load_checkpoint(latest_checkpoint(str(job.directory / "train" / "chief")))
    assert max_epoch is None or reader.get_tensor("global_step") == max_epoch * STEPS_PER_EPOCH
    return {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}


def hit(kind: str, job: Job, victim: int, machines: TwoMachines | None) -> None:
    """Let a fault happen."""
    pid = job.pids[victim]
    if kind == "cut" and machines is not None:
        machines.cut()
    elif kind == "disk":
        # No file of the process may grow beyond that, as on a disk that is full: writing is an error.
        psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE, (SMALL_FILE_BYTES, SMALL_FILE_BYTES))
    elif kind == "agent":
        running = [
            each
            for each in psutil.Process(job.process.pid).children()
            if each.status() != psutil.STATUS_ZOMBIE and "launcher.agent" in " ".join(each.cmdline())
        ]
        running[0].kill()
    else:
        os.kill(pid, {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "error": signal.SIGUSR1}[kind])


@dataclass
class Moments:
    """When faults happen, and how long each took.

    Attributes:
        numbers: what draws them.
        is_early: whether the next one comes before the first step of its attempt.
        secs: the seconds from each fault to the next step, but for those before which there was another fault.
        ends: the seconds from each fault to the end of all processes.
    """

    numbers: random.Random
    is_early: bool = False
    secs: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    def draw(self) -> None:
        """Draw the next one."""
        self.is_early = self.numbers.random() < EARLY_SHARE


def one_fault(kind: str, job: Job, victim: int, moments: Moments, machines: TwoMachines | None) -> str:
    """Let a fault happen in the current attempt, at some moment, and wait for the next attempt.

    Returns:
        A line that says when it happened, how long it took until all had ended, and until there was another step, which
        is not awaited where the next fault is to come before it.
    """
    attempt = job.attempt
    job.wait_until(lambda: len(job.pids) == job.num_processes or job.attempt != attempt)
    if not moments.is_early:
        job.wait_until(lambda: bool(job.steps.get(0)) or job.attempt != attempt)
    time.sleep(moments.numbers.uniform(0.0, EARLY_SECS if moments.is_early else LATE_SECS))
    assert job.attempt == attempt, said_by(job)
    step, began, pids = job.steps.get(0, 0), time.monotonic(), dict(job.pids)
    hit(kind, job, victim, machines)
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids.values()):
        assert time.monotonic() < began + LIMIT_SECS, said_by(job)
        time.sleep(0.01)
    moments.ends.append(time.monotonic() - began)
    if machines is not None:
        machines.mend()
    moments.draw()
    job.wait_until(lambda: job.attempt > attempt and len(job.pids) == job.num_processes)
    text = f"all ended {moments.ends[-1]:.1f} s later"
    if not moments.is_early:
        job.wait_until(lambda: bool(job.steps.get(0)))
        moments.secs.append(time.monotonic() - began)
        text += f", next step {moments.secs[-1]:.1f} s later"
    return f"{f'about step {step}' if step else 'before its first step'}: {text}"


def run(
    kind: str, name: str, options: argparse.Namespace, wanted: dict[str, np.ndarray], directory: Path
) -> tuple[Moments, int]:
    """Run a job that meets with so many faults, and compare its weights with those that are wanted.

    Returns:
        The times, and how often the victim was named.
    """
    moments = Moments(random.Random(f"{options.seed} {kind} {name}"))
    moments.draw()
    victim, who = (SERVER_RANK, "the parameter server") if name == SERVER else (int(name), f"worker {name}")
    with ExitStack() as stack:
        machines = stack.enter_context(two_machines()) if kind == "cut" else None
        # While a machine is cut off, there may be several attempts.
        restarts = ["--restarts", str(10 * options.faults)]
        job = start(directory, options.max_epoch, options, machines, has_server=name == SERVER, of_launch=restarts)
        stack.callback(job.process.kill)
        for number in range(options.faults):
            text = one_fault(kind, job, victim, moments, machines)
            print(f"{kind} of {who}, {number + 1}: {text}", flush=True)
        found = weights(job, options.max_epoch)
    compare(found, wanted, f"after {options.faults} times {kind}")
    said = (directory / "errors.txt").read_text().splitlines()
    named = f"tpack launch: rank {victim} ("
    if kind == "agent":
        # All ranks of the machine are lost, and the first one stands for it.
        named = "tpack launch: rank 0 ("
    of_victim = sum(line.startswith(named) and " failed: " in line for line in said)
    print(f"{kind} of {who}: {options.faults} times, weights equal; it was named {of_victim} times", flush=True)
    return moments, of_victim


def compare(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], what: str) -> None:
    """Compare the variables of two checkpoints, bit by bit."""
    assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
    differing = [name for name in wanted if not np.array_equal(found[name], wanted[name])]
    assert not differing, f"{what}: {differing} differ"


def members(options: argparse.Namespace, directory: Path) -> None:
    """Let a job lose a worker and take it in again, and do the same by hand."""
    changing = ["--restarts", str(options.faults + 2), "--min-workers", "1", "--rejoin-after", "0"]
    batch, numbers = ["--total-batch", "8"], random.Random(options.seed)
    job = start(
        directory / "job", options.max_epoch, options, of_launch=[*changing, "--join-every", "20"], of_script=batch
    )
    for number in range(options.faults):
        job.wait_until(lambda: len(job.pids) == 2 and min(job.steps.get(rank, 0) for rank in range(2)) > 0)
        time.sleep(numbers.uniform(0.0, LATE_SECS))
        step, attempt, began = job.steps[0], job.attempt, time.monotonic()
        os.kill(job.pids[1], signal.SIGKILL)
        job.num_processes = 1
        job.wait_until(lambda attempt=attempt: job.attempt > attempt and bool(job.steps.get(0)))
        alone = time.monotonic() - began
        job.num_processes = 2
        job.wait_until(lambda: len(job.pids) == 2 and bool(job.steps.get(0)))
        both = time.monotonic() - began
        print(
            f"members, {number + 1}: about step {step}: one goes on {alone:.1f} s, both {both:.1f} s later", flush=True
        )
    found = weights(job, None)
    attempts = json.loads((job.directory / "logs" / "result.json").read_text())["attempts"]
    begins = resumed_steps(job.directory / "logs" / "rank0.log")
    assert len(begins) == len(attempts), (begins, attempts)
    for number, attempt in enumerate(attempts):
        size = attempt["workers"]
        # Several workers make one more step when they are asked to end.
        end = ["--end-at", str(begins[number + 1] - (size > 1))] if number + 1 < len(begins) else []
        by_hand = start(directory / "hand", options.max_epoch, options, of_script=[*batch, *end], num_workers=size)
        assert by_hand.wait() == 0, said_by(by_hand)
    compare(found, weights(by_hand, None), f"after {options.faults} losses")
    sizes = ", ".join(
        f"{attempt['workers']} from step {begin}" for attempt, begin in zip(attempts, begins, strict=True)
    )
    print(f"members: {sizes}: weights equal to those of the same runs by hand", flush=True)


def resumed_steps(log: Path) -> list[int]:
    """Return the global step at which each run of a rank has begun."""
    steps = []
    for part in re.split(r"--- restart \d+ ---", log.read_text(encoding="utf-8")):
        found = re.search(r"global step (\d+): training goes on", part)
        steps.append(int(found[1]) if found else 0)
    return steps


def report(moments: Sequence[Moments], num_named: int) -> None:
    """Print the times of all faults."""
    ends, steps = ([secs for each in moments for secs in getattr(each, name)] for name in ("ends", "secs"))
    for what, secs in (("end of all", ends), ("next step", steps)):
        if secs:
            low, high = np.percentile(secs, [50, 90])
            print(f"{len(secs)} times to the {what}: median {low:.1f} s, 90 % {high:.1f} s, largest {max(secs):.1f} s")
    print(f"the victim was named {num_named} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=[*KINDS, "members"])
    parser.add_argument("--victims", nargs="+", choices=["0", "1", SERVER], default=["1", "0", SERVER])
    parser.add_argument("--max-epoch", type=int, default=100)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--plain", action="store_true", help="without forked processes and checkpoints in memory")
    options = parser.parse_args()
    moments, num_named = [], 0
    with tempfile.TemporaryDirectory() as directory:
        wanted: dict[bool, dict[str, np.ndarray]] = {}
        for kind in options.kinds:
            if kind == "members":
                members(options, Path(directory, kind))
                continue
            if kind == "cut" and not can_be_played():
                print("cut: this machine cannot play two (it wants Linux, root and ip)")
                continue
            for name in [name for name in options.victims if name in VICTIMS.get(kind, options.victims)]:
                has_server = name == SERVER
                if has_server not in wanted:
                    whole = start(Path(directory, f"whole{name}"), options.max_epoch, options, has_server=has_server)
                    wanted[has_server] = weights(whole, options.max_epoch)
                found, named = run(kind, name, options, wanted[has_server], Path(directory, f"{kind}{name}"))
                moments.append(found)
                num_named += named
    report(moments, num_named)


if __name__ == "__main__":
    main()
