"""Restart policy of a job: runs until one succeeds, with the workers that are left.

The result of each run is logged, and written to ``result.json`` beside the ranks' output.
"""

import json
import math
import os
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpack.cli.launcher.agent_client import Machines
from tpack.cli.launcher.console import Console
from tpack.cli.launcher.job_run import Job, JobFailure, JobRun
from tpack.cli.launcher.plan import Host, make_plan, parse_hosts, place_workers
from tpack.errors import ClusterError, ConfigError
from tpack.utils.logger import log_once

EXIT_NO_PROCESS = 1
EXIT_OF_RANK_0 = 10
EXIT_OF_LATE_RANKS = 100


@dataclass(frozen=True)
class Team:
    """Processes and restarts of a job.

    Attributes:
        workers: the machine of each worker.
        num_ps: the number of parameter servers.
        has_evaluator: whether there is an evaluator.
        restarts: the number of restarts after failures.
        min_workers: restart without lost workers, but not with fewer than these; None restarts all.
        spares: the machine of each place that takes over from a worker on a lost machine, or, with ``min_workers``,
            from a lost worker.
        rejoin_secs: how long the place of a lost worker is left out, and twice as long each time that it is lost again;
            None leaves it out for good.
        join_steps: the steps of a run before workers join; None waits for the next epoch.
        host_file: a file with the machines, which is read again; machines that are new there join.
    """

    workers: Sequence[Host]
    num_ps: int = 0
    has_evaluator: bool = False
    restarts: int = 0
    min_workers: int | None = None
    spares: Sequence[Host] = ()
    rejoin_secs: float | None = None
    join_steps: int | None = None
    host_file: "HostFile | None" = None


@dataclass
class Place:
    """Room for one worker on a machine.

    Attributes:
        host: the machine.
        num_lost: how often its worker was lost.
        is_back_at: when it may be taken again, as `time.monotonic` counts.
    """

    host: Host
    num_lost: int = 0
    is_back_at: float = math.inf


class Members:
    """Places of a job: those of its workers, spare ones, and those that are left out for a time.

    Attributes:
        places: the place of each worker, by rank.
    """

    def __init__(self, team: Team, machines: Machines) -> None:
        self.places = [Place(host) for host in team.workers]
        self._team = team
        self._machines = machines
        self._spares = [Place(host) for host in team.spares]
        self._left_out: list[Place] = []
        self._size = len(self.places)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The machine of each worker."""
        return tuple(place.host for place in self.places)

    def replace_lost(self, lost: Collection[int], gone: Collection[Host]) -> list[str]:
        """Replace or leave out the places of lost workers; return what was done, in words.

        Args:
            lost: the ranks.
            gone: the machines that do not answer any more.
        """
        said, kept = [], []
        for rank, place in enumerate(self.places):
            is_to_go = place.host in gone or (self._team.min_workers is not None and rank in lost)
            place.num_lost += rank in lost
            spare = self._take_spare(gone) if is_to_go else None
            if spare is not None:
                said.append(f"worker {rank} moves from {place.host.name} to a spare place on {spare.host.name}")
                kept.append(spare)
            elif not is_to_go or self._team.min_workers is None:
                kept.append(place)
            if not kept or kept[-1] is not place:
                self._leave_out(place)
        # Ranks of one machine are consecutive.
        order = list(dict.fromkeys(place.host for place in kept))
        self.places = sorted(kept, key=lambda place: order.index(place.host))
        return said

    def add_ready(self) -> int:
        """Add places that may be taken again and answer, up to the number of workers of the job; return how many."""
        ready = self._ready()[: self._size - len(self.places)]
        for place in ready:
            self._left_out.remove(place)
        hosts = list(self.hosts)
        self.places += ready
        order = list(dict.fromkeys([*hosts, *(place.host for place in ready)]))
        self.places.sort(key=lambda place: order.index(place.host))
        return len(ready)

    def has_ready(self) -> bool:
        """Tell whether a place could join now."""
        if self._team.host_file is not None:
            self._read_hosts(self._team.host_file)
        return len(self.places) < self._size and bool(self._ready())

    def _ready(self) -> list[Place]:
        now = time.monotonic()
        return [each for each in self._left_out if each.is_back_at <= now and self._machines.answers(each.host)]

    def _take_spare(self, gone: Collection[Host]) -> Place | None:
        spare = next((each for each in self._spares if each.host not in gone), None)
        if spare is not None:
            self._spares.remove(spare)
        return spare

    def _leave_out(self, place: Place) -> None:
        if self._team.rejoin_secs is not None:
            place.is_back_at = time.monotonic() + self._team.rejoin_secs * 2 ** min(max(place.num_lost - 1, 0), 16)
        self._left_out.append(place)

    def _read_hosts(self, file: "HostFile") -> None:
        """Make places of what is new in the file, and leave out what is not there any more."""
        slots = file.changed()
        if slots is None:
            return
        known = Counter(place.host for place in [*self.places, *self._spares, *self._left_out])
        self._left_out += [
            Place(host, is_back_at=0.0) for host in dict.fromkeys(slots) for _ in range(slots.count(host) - known[host])
        ]
        self._left_out = [place for place in self._left_out if place.host in slots]
        self._size = max(self._size, len(slots))


class HostFile:
    """A file with machines, one or several in a line as for ``--hosts``, that may change while a job runs.

    Args:
        path: of the file.

    Raises:
        ConfigError: It cannot be read, or a line is malformed.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._seen = self._status()
        self.slots = self._slots()

    def changed(self) -> tuple[Host, ...] | None:
        """Return the machine of each place if the file has changed and can be read; None otherwise."""
        try:
            status = self._status()
            if status == self._seen:
                return None
            self._seen = status
            self.slots = self._slots()
        except ConfigError as error:
            log_once(f"{self._path} is ignored: {error}", "warning")
            return None
        return self.slots

    def _status(self) -> tuple[int, int]:
        try:
            status = os.stat(self._path)
        except OSError as error:
            raise ConfigError(f"--hosts got @{self._path}: {error.strerror}") from error
        return status.st_mtime_ns, status.st_size

    def _slots(self) -> tuple[Host, ...]:
        with open(self._path, encoding="utf-8") as file:
            lines = [line.partition("#")[0].strip() for line in file]
        hosts = parse_hosts(",".join(line for line in lines if line))
        return tuple(replace(host, slots=None) for host in place_workers(hosts, None))


class Restarts:
    """Runs of a job until one succeeds, or too many have failed.

    Attributes:
        last: the last run, after `run`.
    """

    def __init__(self, job: Job, team: Team, console: Console) -> None:
        self.last: JobRun
        self._job = job
        self._team = team
        self._console = console
        self._members = Members(team, job.machines)
        self._history: list[dict[str, Any]] = []

    def run(self) -> int:
        """Run the job; return the exit code, which identifies the rank that failed."""
        num_failures = 0
        while True:
            hosts = self._members.hosts
            self._try(hosts, len(self._history))
            self._write_down(len(hosts))
            if self.last.failure is None and self.last.signum is None and self.last.is_making_room:
                num_new = self._members.add_ready()
                num_workers = len(self._members.places)
                self._console.say(f"{num_new} workers join after step {self.last.step}: {num_workers} go on")
                continue
            if self.last.failure is None or self.last.signum is not None:
                break
            self._console.say(self.failure_text())
            if not self._may_go_on() or num_failures == self._team.restarts:
                break
            num_failures += 1
            self._console.say(
                f"restart {num_failures} of {self._team.restarts}, with {len(self._members.places)} workers"
            )
        code = _exit_code(self.last)
        self._write_result(code)
        return code

    def failure_text(self) -> str:
        """Return the failure of the last run, with the last lines of that process."""
        failure = self.last.failure or JobFailure("nothing failed")
        if failure.process is None:
            return failure.text
        lines = self._console.last_lines(failure.process)
        said = "; its last lines:" if lines else " and had printed nothing"
        text = "".join(f"\n    {line}" for line in lines)
        return f"{failure.process} failed: {failure.text}{said}{text}"

    def _try(self, workers: Sequence[Host], number: int) -> None:
        job = replace(self._job, environment={**self._job.environment, "TPACK_RESTART_COUNT": str(number)})
        if number:
            self._console.begin(number)
        try:
            with job.machines.take(workers) as hosts:
                plan = make_plan(hosts, self._team.num_ps, self._team.has_evaluator)
                before = self.last if number else None
                self.last = JobRun(job, plan, self._console, before, self._is_to_make_room)
                self.last.run()
        except ClusterError as error:
            self.last = JobRun(job, (), self._console)
            self.last.failure = JobFailure(str(error))

    def _may_go_on(self) -> bool:
        """Find the places for another run; return False if too many workers were lost."""
        for text in self._members.replace_lost(self.last.lost, self.last.gone):
            self._console.say(text)
        wanted, left = self._team.min_workers, len(self._members.places)
        if wanted is None or left >= wanted:
            return True
        lost = ", ".join(map(str, sorted(self.last.lost)))
        self._console.say(f"the workers {lost} were lost, and {left} are left: --min-workers wants {wanted}")
        return False

    def _is_to_make_room(self, num_steps: int, num_epochs: int) -> bool:
        """Tell whether a run that is so far is to end for workers that join."""
        steps = self._team.join_steps
        is_time = num_epochs > 0 if steps is None else num_steps >= steps
        return is_time and self._members.has_ready()

    def _write_down(self, num_workers: int) -> None:
        failure = self.last.failure
        process = None if failure is None else failure.process
        self._history.append(
            {
                "workers": num_workers,
                "failed": None if failure is None else failure.text,
                "rank": None if process is None else process.rank,
                "job": None if process is None else process.job,
                "host": None if process is None else process.host.name,
                "code": None if failure is None else failure.code,
                "lost": sorted(self.last.lost),
                "last step": self.last.step,
                "recovery": self.last.recovery(),
            }
        )

    def _write_result(self, code: int) -> None:
        with open(os.path.join(self._console.directory, "result.json"), "w", encoding="utf-8") as file:
            json.dump({"exit_code": code, "attempts": self._history}, file, indent=2)
        if code:
            self._console.say(f"exit code {code}; all output is in {self._console.directory}")


def _exit_code(job_run: JobRun) -> int:
    if job_run.signum is not None:
        return 128 + job_run.signum
    if job_run.failure is None:
        return 0
    if job_run.failure.process is None:
        return EXIT_NO_PROCESS
    return min(EXIT_OF_RANK_0 + job_run.failure.process.rank, EXIT_OF_LATE_RANKS)
