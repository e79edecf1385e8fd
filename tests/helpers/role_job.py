"""Run a function in the processes of a cluster with several jobs, each of which has its place from ``TF_CONFIG``.

The processes are forks of one that has loaded TensorFlow and has started nothing of it. Each has a file for what it
prints and one for what it returns, and a limit of time; none is left behind.
"""

import json
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.helpers import preloaded

SCENARIOS = "tests.helpers.role_scenarios"
LIMIT_SECS = 300.0


@dataclass(frozen=True)
class Outcome:
    """What became of a process: its exit code (-9 where it was killed), what it returned, and what it printed."""

    code: int
    value: Any
    text: str


def run_roles(
    scenario: str, jobs: Mapping[str, int], directory: Path, arguments: Mapping[str, Any] | None = None
) -> dict[str, Outcome]:
    """Run a function of `SCENARIOS` in each process of a cluster.

    Args:
        scenario: its name.
        jobs: how many processes each job has. An ``evaluator`` stands outside of the cluster.
        directory: where the processes' files go; each has it as its working directory.
        arguments: what the function gets, in what JSON can hold.

    Returns:
        What became of ``"chief0"``, ``"worker1"`` and so on.
    """
    directory.mkdir(parents=True, exist_ok=True)
    told = json.dumps([scenario, dict(jobs), dict(arguments or {})])
    done = preloaded.run(Path(__file__), [told], cwd=directory, module=SCENARIOS)
    assert done.returncode == 0, done.stderr
    return {name: _outcome(directory, name, code) for name, code in json.loads(done.stdout.splitlines()[-1]).items()}


def values_of(outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Return what the processes returned, all of which have ended well."""
    assert not any(each.code for each in outcomes.values()), "\n".join(
        f"--- {name}: {each.code}\n{each.text}" for name, each in outcomes.items()
    )
    return {name: each.value for name, each in outcomes.items()}


def _outcome(directory: Path, name: str, code: int) -> Outcome:
    result = directory / f"{name}.value"
    value = pickle.loads(result.read_bytes()) if result.exists() else None
    return Outcome(code, value, (directory / f"{name}.output").read_text())


def _main(scenario: str, jobs: dict[str, int], arguments: dict[str, Any]) -> dict[str, int]:
    """Fork the processes and wait for them; return their exit codes."""
    # Not before this process is a fork itself: the ports stay reserved as long as it lives.
    ports = import_module("tpack.multi_worker.cluster.ports")
    listed = {job: [ports.PortReservation() for _ in range(count)] for job, count in jobs.items() if job != "evaluator"}
    cluster = {job: [f"127.0.0.1:{each.port}" for each in reserved] for job, reserved in listed.items()}
    meeting = ports.PortReservation()
    processes = {}
    for job, index in [(job, index) for job, count in jobs.items() for index in range(count)]:
        environment = {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": job, "index": index}}),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(meeting.port),
        }
        pid = os.fork()
        if not pid:
            _work(scenario, f"{job}{index}", environment, arguments)
        processes[pid] = f"{job}{index}"
    return _wait(processes)


def _work(scenario: str, name: str, environment: dict[str, str], arguments: dict[str, Any]) -> None:
    code = 1
    try:
        output = os.open(f"{name}.output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.update(environment)
        value = getattr(import_module(SCENARIOS), scenario)(**arguments)
        Path(f"{name}.value").write_bytes(pickle.dumps(value))
        code = 0
    except BaseException as error:
        traceback.print_exc()
        Path(f"{name}.value").write_bytes(pickle.dumps(f"{type(error).__name__}: {error}"))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # A server of TensorFlow cannot be stopped.
        os._exit(code)


def _wait(processes: dict[int, str]) -> dict[str, int]:
    codes = dict.fromkeys(processes.values(), -signal.SIGKILL)
    deadline = time.monotonic() + LIMIT_SECS
    left = dict(processes)
    while left and time.monotonic() < deadline:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            codes[left.pop(pid)] = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(0.02)
    for late in left:
        os.kill(late, signal.SIGKILL)
        os.waitpid(late, 0)
    return codes


if __name__ == "__main__":
    print(json.dumps(_main(*json.loads(sys.argv[1]))))
