"""Run a function in several processes that are the workers of one cluster, and bring back what it returns in each.

The processes are forks of one that has loaded TensorFlow and has started nothing of it, so they are there at once. Each
has the variables of a launcher, its own file for what it prints, and a limit of time; none is left behind.
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

SCENARIOS = "tests.helpers.worker_scenarios"
LIMIT_SECS = 300.0
"""Less than a test may take, so that what the workers have said is shown."""


@dataclass(frozen=True)
class Outcome:
    """What became of a worker: its exit code (-9 where its time was over), what it returned, and what it printed."""

    code: int
    value: Any
    text: str


def run_workers(
    scenario: str,
    num_workers: int,
    directory: Path,
    *,
    by: str = "RANK",
    num_ps: int = 0,
    arguments: Mapping[str, Any] | None = None,
    preload: str = SCENARIOS,
    limit_secs: float = LIMIT_SECS,
) -> list[Outcome]:
    """Run a function of `SCENARIOS` in each of several workers, and in parameter servers, which come after them.

    Args:
        scenario: its name; that of another module with the module's before it.
        num_workers: how many workers.
        directory: where the workers' files go; each has it as its working directory.
        by: what says who a worker is: ``"RANK"`` or ``"TF_CONFIG"``.
        num_ps: how many parameter servers; ``"TF_CONFIG"`` alone can say who they are.
        arguments: what the function gets, in what JSON can hold.
        preload: the module that is loaded before the processes are forked.
        limit_secs: how long they may take.
    """
    directory.mkdir(parents=True, exist_ok=True)
    told = json.dumps([scenario, num_workers, num_ps, by, dict(arguments or {}), limit_secs])
    done = preloaded.run(Path(__file__), [told], cwd=directory, module=preload)
    assert done.returncode == 0, done.stderr
    return [_outcome(directory, rank, code) for rank, code in enumerate(json.loads(done.stdout.splitlines()[-1]))]


def values_of(outcomes: list[Outcome]) -> list[Any]:
    """Return what the workers returned, all of which have ended well."""
    assert [outcome.code for outcome in outcomes] == [0] * len(outcomes), "\n".join(each.text for each in outcomes)
    return [outcome.value for outcome in outcomes]


def _outcome(directory: Path, rank: int, code: int) -> Outcome:
    result = directory / f"value{rank}"
    value = pickle.loads(result.read_bytes()) if result.exists() else None
    return Outcome(code, value, (directory / f"output{rank}").read_text())


def _main(
    scenario: str, num_workers: int, num_ps: int, by: str, arguments: dict[str, Any], limit_secs: float
) -> list[int]:
    """Fork the workers and wait for them; return their exit codes."""
    # Not before this process is a fork itself: the ports stay reserved as long as it lives.
    ports = import_module("tpack.multi_worker.cluster.ports")
    reservations = [ports.PortReservation() for _ in range(num_workers + num_ps + 1)]
    addresses = [f"127.0.0.1:{each.port}" for each in reservations]
    processes = {}
    cluster = {"worker": addresses[:num_workers]} | ({"ps": addresses[num_workers:-1]} if num_ps else {})
    for rank in range(num_workers + num_ps):
        job, index = ("worker", rank) if rank < num_workers else ("ps", rank - num_workers)
        place = {
            "RANK": {"RANK": rank, "WORLD_SIZE": num_workers, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": num_workers},
            "TF_CONFIG": {
                "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": job, "index": index}}),
                "TEST_RANK": rank,
            },
        }[by]
        master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": reservations[-1].port}
        environment = {name: str(value) for name, value in {**place, **master}.items()}
        pid = os.fork()
        if not pid:
            _work(scenario, rank, environment, arguments)
        processes[pid] = rank
    return _wait(processes, limit_secs)


def _work(scenario: str, rank: int, environment: dict[str, str], arguments: dict[str, Any]) -> None:
    code = 1
    try:
        output = os.open(f"output{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.update(environment)
        module, _, name = scenario.rpartition(".")
        value = getattr(import_module(module or SCENARIOS), name)(**arguments)
        Path(f"value{rank}").write_bytes(pickle.dumps(value))
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        traceback.print_exc()
        Path(f"value{rank}").write_bytes(pickle.dumps(f"{type(error).__name__}: {error}"))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # A server of TensorFlow cannot be stopped.
        os._exit(code)


def _wait(processes: dict[int, int], limit_secs: float) -> list[int]:
    codes, deadline = [-9] * len(processes), time.monotonic() + limit_secs
    left = dict(processes)
    while left:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            codes[left.pop(pid)] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            for late in left:
                os.kill(late, signal.SIGKILL)
                os.waitpid(late, 0)
            break
        else:
            time.sleep(0.02)
    return codes


if __name__ == "__main__":
    print(json.dumps(_main(*json.loads(sys.argv[1]))))
