"""Restart policy of a job: runs until one succeeds, with the workers that are left.

The result of each run is logged, and written to ``result.json`` beside the ranks' output.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpack.cli.launcher.console import Console
from tpack.cli.launcher.job_run import Job, JobFailure, JobRun
from tpack.cli.launcher.plan import Host, make_plan
from tpack.errors import ClusterError

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
    """

    workers: Sequence[Host]
    num_ps: int = 0
    has_evaluator: bool = False
    restarts: int = 0
    min_workers: int | None = None


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
        self._history: list[dict[str, Any]] = []

    def run(self) -> int:
        """Run the job; return the exit code, which identifies the rank that failed."""
        workers = tuple(self._team.workers)
        for number in range(self._team.restarts + 1):
            self._try(workers, number)
            self._write_down(len(workers))
            if self.last.failure is None or self.last.signum is not None:
                break
            self._console.say(self.failure_text())
            workers = self._without_lost(workers)
            if not workers:
                break
            if number < self._team.restarts:
                self._console.say(f"restart {number + 1} of {self._team.restarts}, with {len(workers)} workers")
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
                self.last = JobRun(job, plan, self._console)
                self.last.run()
        except ClusterError as error:
            self.last = JobRun(job, (), self._console)
            self.last.failure = JobFailure(str(error))

    def _without_lost(self, workers: Sequence[Host]) -> tuple[Host, ...]:
        """Return the machines for another run; none if too many workers were lost."""
        wanted = self._team.min_workers
        if wanted is None:
            return tuple(workers)
        left = tuple(host for rank, host in enumerate(workers) if rank not in self.last.lost)
        if len(left) < wanted:
            lost = ", ".join(map(str, sorted(self.last.lost)))
            self._console.say(f"the workers {lost} were lost, and {len(left)} are left: --min-workers wants {wanted}")
            return ()
        return left

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
