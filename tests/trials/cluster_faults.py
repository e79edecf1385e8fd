"""Let workers of a training be killed, stopped and cut off at random moments, and look at what the job makes of it.

    python -m tests.trials.cluster_faults [--faults N] [--kinds kill stop cut disk] [--victims 0 1 ps] [--seed N]

A job of two workers, under ``tpack launch --restarts``, meets with one fault after another: each time it is to end,
name the worker that was hit, start anew, and go on from its last checkpoint. At the end it has to be at the right step,
with the weights of a job that nothing happened to, bit by bit. For ``cut`` the two workers run on two machines, which
this one plays (`tests.helpers.two_machines`); it is left out where that cannot be. For ``disk`` no file of worker 0 may
grow beyond a size that a checkpoint exceeds, as where a disk is full; the next attempt has room again. The victim
``ps`` is a parameter server, which keeps the variables of two workers that train synchronously.
"""

import argparse
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
from collections.abc import Callable
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

LIMIT_SECS = 240.0
HEARTBEAT_SECS = 3.0
# How often a fault comes before the first step of an attempt, and how long after the start or the first step.
EARLY_SHARE, EARLY_SECS, LATE_SECS = 0.2, 6.0, 1.5
SMALL_FILE_BYTES = 1_000_000
SERVER, SERVER_RANK = "ps", 2


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
            self.attempt = 1 << 30
            self.changed.notify_all()

    def wait_until(self, what: Callable[[], bool]) -> None:
        """Wait for something to be true of it."""
        with self.changed:
            assert self.changed.wait_for(what, LIMIT_SECS), (self.pids, self.steps, said_by(self))


def said_by(job: Job) -> str:
    """Return the end of what the launcher and the workers wrote to standard error."""
    return (job.directory / "errors.txt").read_text(encoding="utf-8")[-3000:]


def start(
    directory: Path, max_epoch: int, restarts: int, machines: TwoMachines | None = None, *, has_server: bool = False
) -> Job:
    """Start a job.

    Args:
        directory: where its files go.
        max_epoch: how long it trains.
        restarts: how often it is started anew.
        machines: where its workers run; None is this machine.
        has_server: whether there is a parameter server.
    """
    directory.mkdir(parents=True, exist_ok=True)
    where = ["-n", "2", *(["--ps", "1"] if has_server else [])]
    if machines is not None:
        hosts = ",".join(f"{address}:1" for address in machines.addresses)
        where = ["--hosts", hosts, "--ssh", machines.write_ssh(directory / "ssh")]
    training = ["-m", "tests.helpers.killable_worker", str(directory / "train"), "--max-epoch", str(max_epoch)]
    command = [sys.executable, "-m", "tpack", "launch", *where, "--restarts", str(restarts), "--grace", "10"]
    command += ["--log-dir", str(directory / "logs"), *training, "--heartbeat", str(HEARTBEAT_SECS)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TPACK_CLUSTER_SECRET": secrets.token_hex(16)}
    with open(directory / "errors.txt", "w", encoding="utf-8") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
    job = Job(process, directory, 3 if has_server else 2)
    threading.Thread(target=job.read, daemon=True).start()
    return job


def weights(job: Job, max_epoch: int) -> dict[str, np.ndarray]:
    """Return all variables of a job's last checkpoint, which has to be that of the last step."""
    assert job.process.wait(LIMIT_SECS) == 0, said_by(job)
    reader = tf.train.load_checkpoint(latest_checkpoint(str(job.directory / "train" / "chief")))
    assert reader.get_tensor("global_step") == max_epoch * STEPS_PER_EPOCH
    return {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}


def hit(kind: str, job: Job, victim: int, machines: TwoMachines | None) -> None:
    """Let a fault happen."""
    pid = job.pids[victim]
    if kind == "cut" and machines is not None:
        machines.cut()
    elif kind == "disk":
        # No file of the process may grow beyond that, as on a disk that is full: writing is an error.
        psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE, (SMALL_FILE_BYTES, SMALL_FILE_BYTES))
    else:
        os.kill(pid, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)


def one_fault(kind: str, job: Job, victim: int, moments: random.Random, machines: TwoMachines | None) -> str:
    """Let a fault happen in the current attempt, at some moment, and wait for the next attempt.

    That is not yet awaited to train, so that a fault may hit it before it does.

    Returns:
        A line that says when it happened, and how long it took until all had ended and until all were there again.
    """
    attempt = job.attempt
    job.wait_until(lambda: len(job.pids) == job.num_processes)
    is_early = moments.random() < EARLY_SHARE
    if not is_early:
        job.wait_until(lambda: bool(job.steps.get(0)) or job.attempt != attempt)
    time.sleep(moments.uniform(0.0, EARLY_SECS if is_early else LATE_SECS))
    assert job.attempt == attempt, said_by(job)
    step, began, pids = job.steps.get(0, 0), time.monotonic(), dict(job.pids)
    hit(kind, job, victim, machines)
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids.values()):
        assert time.monotonic() < began + LIMIT_SECS, said_by(job)
        time.sleep(0.02)
    ended = time.monotonic() - began
    if machines is not None:
        machines.mend()
    job.wait_until(lambda: job.attempt > attempt and len(job.pids) == job.num_processes)
    when = "before its first step" if not step else f"about step {step}"
    return f"{when}: all ended {ended:.1f} s later, all there again {time.monotonic() - began:.1f} s later"


def run(kind: str, name: str, options: argparse.Namespace, wanted: dict[str, np.ndarray], directory: Path) -> None:
    """Run a job that meets with so many faults, and compare its weights with those that are wanted."""
    moments = random.Random(f"{options.seed} {kind} {name}")
    victim, who = (SERVER_RANK, "the parameter server") if name == SERVER else (int(name), f"worker {name}")
    with ExitStack() as stack:
        machines = stack.enter_context(two_machines()) if kind == "cut" else None
        job = start(directory, options.max_epoch, options.faults + 2, machines, has_server=name == SERVER)
        stack.callback(job.process.kill)
        for number in range(options.faults):
            text = one_fault(kind, job, victim, moments, machines)
            print(f"{kind} of {who}, {number + 1}: {text}", flush=True)
        found = weights(job, options.max_epoch)
    assert found.keys() == wanted.keys()
    differing = [name for name in wanted if not np.array_equal(found[name], wanted[name])]
    assert not differing, f"after {options.faults} times {kind}: {differing} differ"
    said = (directory / "errors.txt").read_text().splitlines()
    of_victim = sum(line.startswith(f"tpack launch: rank {victim} (") and " failed: " in line for line in said)
    print(f"{kind} of {who}: {options.faults} times, weights equal; it was named {of_victim} times", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--kinds", nargs="+", default=["kill", "stop", "cut", "disk"])
    parser.add_argument("--victims", nargs="+", choices=["0", "1", SERVER], default=["1", "0", SERVER])
    parser.add_argument("--max-epoch", type=int, default=100)
    parser.add_argument("--seed", type=int, default=14)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        wanted: dict[bool, dict[str, np.ndarray]] = {}
        for kind in options.kinds:
            if kind == "cut" and not can_be_played():
                print("cut: this machine cannot play two (it wants Linux, root and ip)")
                continue
            for name in ["0"] if kind == "disk" else options.victims:
                has_server = name == SERVER
                if has_server and kind == "cut":
                    continue
                if has_server not in wanted:
                    whole = start(Path(directory, f"whole{name}"), options.max_epoch, 0, has_server=has_server)
                    wanted[has_server] = weights(whole, options.max_epoch)
                run(kind, name, options, wanted[has_server], Path(directory, f"{kind}{name}"))


if __name__ == "__main__":
    main()
