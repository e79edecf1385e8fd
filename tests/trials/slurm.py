"""Run tpack's jobs under a real Slurm: a controller and two nodes on this machine, for the time of the trial.

    apt-get install slurmctld slurmd slurm-client munge
    python -m tests.trials.slurm [--cases places alone inside failure loss limit preemption cancel node] [--light]

The configuration, the key and all state are in a temporary directory; both nodes are daemons of this machine, whose
names n1 and n2 stand in an ``/etc/hosts`` of their own (``unshare -m``). Jobs are the batch script and the training of
``examples/cluster``, with data that come slowly while a file says so, so that there is time for what happens to them.
With ``--light`` a program without TensorFlow stands for the training: it uses tpack's rendezvous and control channel,
counts steps, saves them and ends with the same codes. It starts in a second where TensorFlow takes minutes.
The exit code is 0 if all is right, 1 if not, and 2 if Slurm is not installed.
"""

import argparse
import contextlib
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from tests.helpers.source import ROOT
from tests.trials.job_surroundings import free_port, report

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "unshare")
LIMIT_SECS = 600.0
EXAMPLES = ROOT / "examples" / "cluster"
NODES = ("n1", "n2")

CONFIGURATION = """
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool.%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdTimeout=20
KillWait=30
SlurmdParameters=config_overrides
PartitionName=low Nodes=n1,n2 Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=abrupt Nodes=n1,n2 PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=high Nodes=n1,n2 PriorityTier=10 PreemptMode=OFF
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8\n"

# The training of the example, whose batches come slowly while there is a file that says so.
TRAINING = """
import importlib.util, os, sys, time
spec = importlib.util.spec_from_file_location("example", {example!r})
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

class Slow(example.BatchData):
    def __iter__(self):
        for number, batch in enumerate(super().__iter__()):
            if os.path.exists({slow!r}):
                time.sleep(0.2)
            if number == 30 and os.environ.get("FAILS") == os.environ["SLURM_PROCID"]:
                raise ValueError("a point of the trial")
            yield batch

example.BatchData = Slow
example.main()
"""

# Steps without TensorFlow: as the training above, as far as signals, losses, codes and lines of the log are concerned.
LIGHT = """
import argparse, os, signal, sys, time
from pathlib import Path
from tpack.multi_worker.cluster.peers import connect_peers
from tpack.multi_worker.cluster.resolver import resolve_cluster
parser = argparse.ArgumentParser()
for name, kind in (("--logdir", Path), ("--epochs", int), ("--steps", int)):
    parser.add_argument(name, type=kind)
options = parser.parse_args()
asked = []
signal.signal(signal.SIGTERM, lambda *told: asked.append(1))
folder = options.logdir
folder.mkdir(parents=True, exist_ok=True)
step = max([0, *(int(path.stem.split("-")[1]) for path in folder.glob("model-*.index"))])

def save(rank):
    if rank == 0:
        (folder / f"model-{{step}}.index").touch()
        print(f"Model saved to {{folder}}/model-{{step}}.", flush=True)

member = resolve_cluster(timeout_secs=60)
with connect_peers(member, heartbeat_secs=5, timeout_secs=60) as peers:
    begun = None
    while step < options.epochs * options.steps:
        if begun != (begun := step // options.steps + 1):
            print(f"Start Epoch {{begun}} ...", flush=True)
        step += 1
        if os.path.exists({slow!r}):
            time.sleep(0.2)
        if step == 30 and os.environ.get("FAILS") == os.environ["SLURM_PROCID"]:
            raise ValueError("a point of the trial")
        ends = any(peers.gather("end", bool(asked)))
        if ends or step % options.steps == 0:
            save(member.rank)
        if ends:
            break
sys.exit(143 if ends else 0)
"""

# What a worker finds out about its place, and an exchange with the others.
PLACE = """
from tpack.multi_worker.cluster.peers import connect_peers
from tpack.multi_worker.cluster.resolver import resolve_cluster
member = resolve_cluster(timeout_secs=30)
place = f"{member.rank} of {member.num_workers}, {member.local_rank} of {member.local_size} here"
if member.num_workers > 1:
    with connect_peers(member, timeout_secs=30) as peers:
        assert peers.gather("rank", member.rank) == list(range(member.num_workers))
print("place", place, flush=True)
"""


class Slurm:
    """A controller and two nodes, which end with the ``with`` block, with all that they have started.

    Args:
        directory: for the configuration, the state and the jobs' files.
        training: the text of the program that jobs run.
    """

    def __init__(self, directory: Path, training: str) -> None:
        self.directory = directory
        self.training = training
        self.slow = directory / "slow"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "TPACK"))},
            "SLURM_CONF": str(directory / "slurm.conf"),
            "PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "TRAIN_SCRIPT": str(directory / "training.py"),
        }

    def __enter__(self) -> "Slurm":
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        host, user = os.uname().nodename.split(".")[0], pwd.getpwuid(os.geteuid()).pw_name
        told = {"host": host, "user": user, "directory": self.directory, "port": free_port()}
        nodes = "".join(NODE.format(name=name, host=host, port=free_port()) for name in NODES)
        (self.directory / "slurm.conf").write_text(nodes + CONFIGURATION.format(**told), encoding="utf-8")
        hosts = Path("/etc/hosts").read_text(encoding="utf-8") + "".join(f"\n127.0.0.1 {name}\n" for name in NODES)
        (self.directory / "hosts").write_text(hosts, encoding="utf-8")
        (self.directory / "state").mkdir()
        script = self.training.format(example=str(EXAMPLES / "train.py"), slow=str(self.slow))
        (self.directory / "training.py").write_text(script, encoding="utf-8")
        (self.directory / "place.py").write_text(PLACE, encoding="utf-8")
        key = self.directory / "munge.key"
        key.write_bytes(secrets.token_bytes(64))
        key.chmod(0o600)
        files = {name: self.directory / f"munge.{name}" for name in ("key-file", "socket", "pid-file", "log-file")}
        files |= {"seed-file": self.directory / "munge.seed", "key-file": key}
        self._start("munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in files.items()))
        self.wait("munged", files["socket"].exists)
        self._start("slurmctld", "-D")
        for name in NODES:
            self.start_node(name)
        self.wait("nodes", lambda: set(self.call("sinfo", "-hN", "-o", "%N=%T").split()) == {"n1=idle", "n2=idle"})

    def __exit__(self, *told: object) -> None:
        with contextlib.suppress(RuntimeError):
            self.call("scancel", "--signal=KILL", "--user", pwd.getpwuid(os.geteuid()).pw_name)
            self.wait("empty queue", lambda: not self.call("squeue", "-h"), limit_secs=30)
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for daemon in self._daemons.values():
            daemon.wait(30)

    def _start(self, program: str, *arguments: str, name: str = "", before: tuple[str, ...] = ()) -> None:
        with (self.directory / f"{name or program}.out").open("ab") as output:
            self._daemons[name or program] = subprocess.Popen(
                [*before, program, *arguments], env=self.environment, stdout=output, stderr=output
            )

    def start_node(self, name: str) -> None:
        """Start the daemon of a node, and of all its tasks, in an ``/etc/hosts`` with the names of the nodes."""
        inside = f'mount --bind {self.directory}/hosts /etc/hosts && exec "$0" "$@"'
        self._start("slurmd", "-D", "-N", name, name=name, before=("unshare", "-m", "sh", "-c", inside))

    def kill_node(self, name: str) -> None:
        """Kill the daemon of a node and all that it has started."""
        node = psutil.Process(self._daemons[name].pid)
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                if process == node or process.environ().get("SLURMD_NODENAME") == name or _is_of(process, name):
                    process.kill()
        self._daemons[name].wait()

    def processes(self, **wanted: str) -> list[psutil.Process]:
        """Return the processes that this Slurm has started, and those of them with some variables."""
        wanted["SLURM_CONF"] = self.environment["SLURM_CONF"]
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if wanted.items() <= process.environ().items():
                    found.append(process)
        return found

    def call(self, *command: str, **more: str) -> str:
        """Run a program of Slurm's; return what it printed."""
        done = subprocess.run(
            command, cwd=self.directory, env={**self.environment, **more}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def submit(self, *options: str, epochs: int = 3, **more: str) -> str:
        """Submit the batch script of the example with one worker on each node; return the job's number."""
        sizes = ("--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=1")
        script = (str(EXAMPLES / "train.sbatch"), "--epochs", str(epochs), "--steps", "20")
        return self.call("sbatch", "--parsable", *sizes, *options, *script, **more)

    def job(self, number: str) -> dict[str, str]:
        """Return what the controller says about a job."""
        return dict(re.findall(r"(\w+)=(\S*)", self.call("scontrol", "show", "job", "-o", number)))

    def log(self, number: str) -> str:
        """Return the output of a job, with ranks."""
        path = self.directory / f"train-{number}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def wait(self, name: str, is_there: Callable[[], object], limit_secs: float = LIMIT_SECS) -> None:
        """Wait until something is so; an error says what never was."""
        end = time.monotonic() + limit_secs
        while not is_there():
            if time.monotonic() > end:
                raise RuntimeError(f"{name}: not so after {limit_secs:.0f} s; {self.call('squeue')}")
            time.sleep(0.2)

    def wait_for_steps(self, number: str) -> None:
        """Wait until a job has saved a checkpoint and goes on."""
        self.wait("second epoch", lambda: "Start Epoch 2" in self.log(number))

    def end(self, number: str) -> tuple[str, str]:
        """Let a job end, with a shorter pause than the two minutes that Slurm makes before it starts a job again.

        Returns:
            The state, with the exit code and the number of restarts, and the job's output.
        """
        shortened = set()

        def has_ended() -> bool:
            job = self.job(number)
            if job["JobState"] == "PENDING" and job["Restarts"] not in {"0", *shortened}:
                shortened.add(job["Restarts"])
                self.slow.unlink(missing_ok=True)
                # A daemon refuses a job that it has just ended: "Job credential revoked".
                self.call("scontrol", "update", f"JobId={number}", "StartTime=now+15seconds")
            return job["JobState"] not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "PREEMPTED")

        self.wait(f"end of job {number}", has_ended)
        job = self.job(number)
        return f"{job['JobState']}, exit code {job['ExitCode']}, {job['Restarts']} restarts", self.log(number)


def _is_of(process: psutil.Process, node: str) -> bool:
    """Say whether a process is the parent of a node's tasks, ``slurmstepd``, which has no variables of the job."""
    return any(child.environ().get("SLURMD_NODENAME") == node for child in process.children())


def epochs(log: str, rank: int = 0) -> list[int]:
    """Return the epochs that a worker began, in order."""
    return [int(number) for number in re.findall(rf"^{rank}: .*Start Epoch (\d+)", log, re.MULTILINE)]


def has_gone_on(state: str, log: str, last: int) -> bool:
    """Say whether a requeued job has ended well, each worker with all epochs in order, interrupted ones twice."""
    times = int(re.findall(r"(\d+) restarts", state)[0])
    return (
        state.startswith("COMPLETED, exit code 0:0")
        and times > 0
        and all(
            sorted(set(found)) == list(range(1, last + 1)) and found == sorted(found) and len(found) <= last + times
            for found in (epochs(log, rank) for rank in (0, 1))
        )
    )


# Cases


def places(slurm: Slurm) -> Iterator[bool]:
    """Tasks that are dealt out unevenly, and steps at the same time, by ``srun`` alone."""
    command = (sys.executable, "place.py")
    text = slurm.call("srun", "--nodes=2", "--ntasks=3", "--distribution=block", "--label", *command)
    found = sorted(re.findall(r"place (.*)", text))
    wanted = ["0 of 3, 0 of 2 here", "1 of 3, 1 of 2 here", "2 of 3, 0 of 1 here"]
    yield report("three tasks on two nodes", found == wanted, str(found))
    together = " & ".join([f"srun --exact --ntasks=2 --nodes=2 --label {' '.join(command)}"] * 3) + " & wait"
    (slurm.directory / "steps.sh").write_text(f"#!/bin/bash\n{together}\n", encoding="utf-8")
    text = slurm.call("salloc", "--nodes=2", "--ntasks=6", "bash", "steps.sh")
    found = sorted(re.findall(r"place (\d of \d)", text))
    yield report("three steps of a job at once", found == ["0 of 2"] * 3 + ["1 of 2"] * 3, str(found))


def alone(slurm: Slurm) -> Iterator[bool]:
    """A batch script that starts Python without ``srun``, with several tasks: it is one process."""
    wrapped = f"--wrap={sys.executable} place.py"
    slurm.call("sbatch", "--wait", "--nodes=2", "--ntasks=4", "--output=alone.log", wrapped)
    found = (slurm.directory / "alone.log").read_text(encoding="utf-8")
    yield report("a batch script without srun", "place 0 of 1, 0 of 1 here" in found, found.strip()[-200:])


def inside(slurm: Slurm) -> Iterator[bool]:
    """``tpack launch`` in one task of ``srun``: its own variables count, not those of the step."""
    launch = (sys.executable, "-m", "tpack", "launch", "-n", "3", "--log-dir", "inside", "place.py")
    text = slurm.call("srun", "--nodes=1", "--ntasks=1", *launch)
    found = sorted(re.findall(r"place (.*)", text))
    yield report("tpack launch in a step", found == [f"{rank} of 3, {rank} of 3 here" for rank in range(3)], str(found))


def failure(slurm: Slurm) -> Iterator[bool]:
    """An error in one worker ends the job with its code, and is not tried again."""
    number = slurm.submit(FAILS="1")
    state, log = slurm.end(number)
    is_named = "worker 1" in log and "a point of the trial" in log
    yield report("an error in worker 1", state == "FAILED, exit code 1:0, 0 restarts" and is_named, state)


def loss(slurm: Slurm) -> Iterator[bool]:
    """A killed worker: the job is requeued, and goes on from its checkpoint."""
    slurm.slow.touch()
    number = slurm.submit()
    slurm.wait_for_steps(number)
    for process in slurm.processes(SLURM_JOB_ID=number, SLURM_PROCID="1"):
        if "training.py" in " ".join(process.cmdline()):
            process.kill()
    state, log = slurm.end(number)
    is_right = has_gone_on(state, log, 3) and "worker 1 was lost" in log
    yield report("a killed worker", is_right, f"{state}; epochs {epochs(log)}")


def limit(slurm: Slurm) -> Iterator[bool]:
    """A job whose time is nearly up saves in the middle of an epoch, is requeued and goes on."""
    slurm.slow.touch()
    number = slurm.submit("--time=2", "--signal=B:USR1@60", epochs=20)
    slurm.wait("the signal", lambda: "the time is nearly up" in slurm.log(number))
    slurm.wait("the requeue", lambda: _is_pending(slurm, number))
    steps = [int(step) for step in re.findall(r"model-(\d+)\.", slurm.log(number))]
    state, log = slurm.end(number)
    is_right = has_gone_on(state, log, 20)
    yield report("time that is nearly up", is_right, f"{state}; saved at {steps}; epochs {epochs(log)}")


def _is_pending(slurm: Slurm, number: str) -> bool:
    return slurm.job(number)["JobState"] == "PENDING"


def preemption(slurm: Slurm) -> Iterator[bool]:
    """A job that gives way to another is saved by Slurm's SIGTERM and goes on, with a grace time and without."""
    for partition in ("low", "abrupt"):
        slurm.slow.touch()
        number = slurm.submit(f"--partition={partition}")
        slurm.wait_for_steps(number)
        other = slurm.call("sbatch", "--parsable", "--partition=high", "--nodes=2", "--exclusive", "--wrap=sleep 5")
        slurm.wait("the other job", lambda other=other: slurm.job(other)["JobState"] == "COMPLETED")
        saved = re.findall(r"model-(\d+)\.", slurm.log(number))
        state, log = slurm.end(number)
        is_right = has_gone_on(state, log, 3)
        yield report(f"preemption, {partition}", is_right, f"{state}; saved at {saved}; epochs {epochs(log)}")


def cancel(slurm: Slurm) -> Iterator[bool]:
    """``scancel`` saves the step that was reached, and nothing is requeued; other tasks go on from there."""
    slurm.slow.touch()
    number = slurm.submit()
    slurm.wait_for_steps(number)
    slurm.call("scancel", number)
    state, log = slurm.end(number)
    folder = f"train_log/{number}"
    saved = sorted(int(path.stem.split("-")[1]) for path in (slurm.directory / folder).glob("model-*.index"))
    slurm.slow.unlink()
    is_saved = state.startswith("CANCELLED, exit code 143") and max(saved) % 20 != 0
    is_saved = is_saved and f"model-{max(saved)}." in log
    yield report("scancel", is_saved, f"{state}; saved at {saved}")
    command = (sys.executable, "training.py", "--logdir", folder, "--epochs", "3", "--steps", "20")
    text = slurm.call("bash", "-c", 'exec "$@" 2>&1', "bash", "srun", "--ntasks=1", "--label", *command)
    is_right = (slurm.directory / folder / "model-60.index").exists() and min(epochs(text), default=0) == 2
    yield report("one task that goes on from two", is_right, f"epochs {epochs(text)}")


def node(slurm: Slurm) -> Iterator[bool]:
    """A node that is lost with all its processes, and comes back."""
    slurm.slow.touch()
    number = slurm.submit()
    slurm.wait_for_steps(number)
    slurm.kill_node("n2")
    slurm.wait("the requeue", lambda: _is_pending(slurm, number))
    reason = slurm.job(number)["Reason"]
    slurm.start_node("n2")
    state, log = slurm.end(number)
    is_right = has_gone_on(state, log, 3)
    yield report("a lost node", is_right, f"{state}; waited for {reason}; epochs {epochs(log)}")


CASES = {each.__name__: each for each in (places, alone, inside, failure, loss, limit, preemption, cancel, node)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--light", action="store_true", help="jobs without TensorFlow")
    options = parser.parse_args()
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        print(f"{', '.join(missing)} not found: apt-get install slurmctld slurmd slurm-client munge", file=sys.stderr)
        return 2
    if os.geteuid():
        print("the trial needs root, for an /etc/hosts of its own", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *told: sys.exit(1))
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="slurm") as name,
        Slurm(Path(name), LIGHT if options.light else TRAINING) as slurm,
    ):
        print(slurm.call("sinfo", "--version"), flush=True)
        for case in options.cases:
            slurm.slow.unlink(missing_ok=True)
            begun = time.monotonic()
            try:
                results += list(CASES[case](slurm))
            except RuntimeError as error:
                results.append(report(case, False, str(error)))
            print(f"     {time.monotonic() - begun:.0f} s", flush=True)
            if not all(results) and (kept := os.environ.get("TRIAL_KEEPS")):
                shutil.copytree(name, kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.socket*", "spool*"))
    print(f"{sum(results)} of {len(results)} right")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
