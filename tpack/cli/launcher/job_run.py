"""One run of a job: start its processes everywhere, watch them, and end all of them when one fails.

agents start, reserve ports --> processes start --> all workers and the evaluator end with 0 --> ps are ended
             |                       |
             |                       +--> a process fails, a machine is lost, or a signal arrives --> all are ended
             +--> an agent does not answer in time --> all are ended
"""

import json
import math
import selectors
import signal
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tpack.cli.launcher.agent import PROGRESS
from tpack.cli.launcher.agent_client import Link, Machines, ReachedMachines
from tpack.cli.launcher.console import Console
from tpack.cli.launcher.plan import Host, Process, environments_of
from tpack.errors import ConfigError
from tpack.multi_worker.cluster.peer_failure import EXIT_PEER_LOST, LostRanks, lost_by
from tpack.multi_worker.control.messages import allow_descriptors
from tpack.utils.child_process import cause_of_death
from tpack.utils.progress import FIRST_STEP

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

HURRY_SECS = 5.0
"""The grace period after a second signal."""

SILENCE_SECS = 60.0
"""The timeout after which another machine ends its processes without orders of the launcher."""

_SPEAK_SECS = 5.0

_CLOSE_SECS = 15.0
# The time that an agent has beyond the grace period of its processes.
_AGENT_SECS = 20.0
# The same for an agent that has started nothing.
_UNSTARTED_SECS = 2.0
# The time that a worker which others have lost has to end by itself: if they have named it, and if they have not, or it
# has reported an error, after which threads and functions for the end of the interpreter take their time.
_NAMED_SECS = 3.0
_UNNAMED_SECS = 15.0


@dataclass(frozen=True)
class Job:
    """Settings of a job that are the same in all attempts.

    Attributes:
        command: that of each process.
        directory: its working directory.
        environment: variables for all processes.
        machines: the way to the agents on the machines.
        start_secs: the timeout of the machines' answers.
        grace_secs: the time that processes have to end when asked.
    """

    command: Sequence[str]
    directory: str
    environment: Mapping[str, str]
    machines: Machines = field(default_factory=ReachedMachines)
    start_secs: float = 60.0
    grace_secs: float = 30.0


@dataclass(frozen=True)
class JobFailure:
    """First failure of an attempt.

    Attributes:
        text: its description.
        process: the process; None if none was started.
        code: its exit code, or the negative number of a signal; None if it is not known.
        host: the machine, if it was lost.
    """

    text: str
    process: Process | None = None
    code: int | None = None
    host: Host | None = None


class JobRun:
    """One run of the processes of a plan.

    Args:
        job: the settings.
        plan: the processes.
        console: their output.
        before: the run before.
        is_to_make_room: gets the steps of this run, and its epochs; returns whether it is to end, so that
            others can join.

    Attributes:
        failure: the first failure, or None.
        lost: the ranks of workers to leave out next time: a signal ended them, or their machine is gone.
        signum: the signal that ended the attempt, or None.
        failed_at: when the first failure was found, as `time.monotonic` counts.
        ended_at: when all processes had ended.
        phases: when the last worker reported the end of each phase of its start.
        gone: the machines that do not answer any more, or never did.
        step: the last global step that a worker reported; None without one.
        is_making_room: whether the run was ended for workers that join.
    """

    def __init__(
        self,
        job: Job,
        plan: Sequence[Process],
        console: Console,
        before: "JobRun | None" = None,
        is_to_make_room: Callable[[int, int], bool] = lambda *progress: False,
    ) -> None:
        self.failure: JobFailure | None = None
        self.lost: set[int] = set()
        self.signum: int | None = None
        self.failed_at = self.ended_at = math.inf
        self.phases: dict[str, float] = {}
        self._num_reports: Counter[str] = Counter()
        self.gone: set[Host] = set()
        self.step: int | None = None
        self.is_making_room = False
        self._before = before
        self._is_to_make_room = is_to_make_room
        self._began_at: tuple[int, int] | None = None
        self._job = job
        self._plan = plan
        self._on_machine: defaultdict[Host, list[Process]] = defaultdict(list)
        for process in plan:
            self._on_machine[process.host].append(process)
        self._console = console
        self._selector = selectors.DefaultSelector()
        self._links: list[Link] = []
        self._was_started = False
        self._is_ending = False
        self._signals: list[int] = []
        self._hurries = False
        self._start_by = time.monotonic() + job.start_secs
        self._give_up_at = math.inf
        self._survivors: set[int] = set()
        self._accused: dict[int, LostRanks] = {}
        self._blame_at = self._started_at = math.inf
        self._speak_at = time.monotonic() if any(each.host.login for each in plan) else math.inf

    def run(self) -> None:
        """Run until all processes have ended; the result is in the attributes."""
        with self._heard_signals():
            try:
                self._open()
                while any(not link.has_ended for link in self._links):
                    for key, _ in self._selector.select(self._wait_secs()):
                        key.data()
                    self._look()
            finally:
                for link in self._links:
                    self._job.machines.release(link, _CLOSE_SECS)
                self._selector.close()
                self.ended_at = time.monotonic()

    def recovery(self) -> str | None:
        """Return the time from the failure of the run before to the first step of this one, by phases; None without."""
        before, first = self._before, self.phases.get(FIRST_STEP)
        if before is None or first is None or before.failed_at == math.inf:
            return None
        ends = {"ending": before.ended_at, "starting": self._started_at, **self.phases}
        times = [before.failed_at, *ends.values()]
        parts = [f"{name} {end - begin:.2f}" for name, begin, end in zip(ends, times, times[1:], strict=False)]
        what = "the end of the run before" if before.is_making_room else "the failure was found"
        return f"first step {first - before.failed_at:.2f} s after {what}: {', '.join(parts)}"

    # Agents.

    def _open(self) -> None:
        # For a machine three pipes to its agent, and for a process the file of its output.
        allow_descriptors(3 * len(self._on_machine) + len(self._plan), f"a job of {len(self._plan)} processes")
        for host in self._on_machine:
            try:
                link = self._job.machines.connect(host)
            except OSError as error:
                self.gone.add(host)
                self._fail(JobFailure(f"{host.name}: {error}", host=host))
                return
            self._links.append(link)
            self._selector.register(link.reports, selectors.EVENT_READ, lambda link=link: self._receive(link))
            self._selector.register(link.errors, selectors.EVENT_READ, lambda link=link: self._complain(link))
            # A name of another machine may stand for several of its interfaces.
            interface = "" if host.login else host.name
            link.num_reserved = len(self._of(host)) + 1
            if host.login is not None:
                link.order("watch", silence_secs=SILENCE_SECS)
            link.order("reserve", host=interface, count=link.num_reserved)

    def _of(self, host: Host) -> Sequence[Process]:
        return self._on_machine[host]

    def _wait_secs(self) -> float | None:
        if not all(link.flush() for link in self._links) or self._console.is_full:
            return 0.05
        limit = self._give_up_at if self._was_started or self._is_ending else self._start_by
        due = min(limit, self._speak_at, self._blame_at)
        return None if due == math.inf else max(due - time.monotonic(), 0.0)

    def _look(self) -> None:
        while self._signals:
            self._take_signal(self._signals.pop(0))
        if not self._was_started and not self._is_ending:
            self._start_if_all_are_there()
        elif self._survivors and not self._is_ending:
            self._blame()
        elif not self._is_ending and not self._is_any_unfinished():
            # Parameter servers serve until they are ended.
            self._end(signal.SIGTERM, self._job.grace_secs)
        is_to_speak = time.monotonic() >= self._speak_at
        if is_to_speak:
            self._speak_at = time.monotonic() + _SPEAK_SECS
        for link in self._links:
            if is_to_speak:
                link.order("nothing")
            self._give_up_if_late(link)
            self._pause(link)

    def _start_if_all_are_there(self) -> None:
        silent = [link for link in self._links if link.ports is None]
        if not silent:
            self._start()
        elif time.monotonic() >= self._start_by:
            self.gone |= {link.host for link in silent}
            names = ", ".join(link.host.name for link in silent)
            self._fail(JobFailure(f"no answer within {self._job.start_secs:g} s from {names}", host=silent[0].host))

    def _give_up_if_late(self, link: Link) -> None:
        if link.has_ended or time.monotonic() < self._give_up_at:
            return
        if link.reports in self._selector.get_map():
            self._selector.unregister(link.reports)
        link.give_up()
        self._note_gone(link)

    def _pause(self, link: Link) -> None:
        """Read an agent's reports only while the terminal takes output."""
        if link.is_gone:
            return
        is_full = self._console.is_full and not self._is_ending
        is_read = link.reports in self._selector.get_map()
        if is_full and is_read:
            self._selector.unregister(link.reports)
        elif not is_full and not is_read:
            self._selector.register(link.reports, selectors.EVENT_READ, lambda: self._receive(link))

    def _is_any_unfinished(self) -> bool:
        return any(self._plan[rank].job != "ps" for link in self._links for rank in link.running)

    # Reports.

    def _start(self) -> None:
        job, ports = self._job, dict[int, int]()
        for link in self._links:
            ports |= zip([process.rank for process in self._of(link.host)], link.ports or (), strict=False)
        master_port = (self._links[0].ports or [0])[-1]
        try:
            places = environments_of(self._plan, ports, master_port)
        except ConfigError as error:
            self._fail(JobFailure(str(error)))
            return
        self._was_started, self._started_at = True, time.monotonic()
        for link in self._links:
            processes = [
                {
                    "rank": process.rank,
                    "command": list(job.command),
                    "environment": {**job.environment, **places[process.rank]},
                }
                for process in self._of(link.host)
            ]
            link.running = {process.rank for process in self._of(link.host)}
            shows_progress = self._console.shows_progress
            link.order("start", processes=processes, directory=job.directory, shows_progress=shows_progress)

    def _receive(self, link: Link) -> None:
        for report in link.receive():
            # An agent that has waited may also have answered for none.
            if report.get("ports"):
                link.ports = report["ports"]
            elif "text" in report:
                self._take_line(self._plan[report["rank"]], report["stream"], report["text"])
            elif "done" in report:
                link.is_done = True
            elif "rank" in report:
                self._note_end(link, report)
        if link.is_gone:
            self._selector.unregister(link.reports)
            self._note_gone(link)

    def _take_line(self, process: Process, stream: int, text: str) -> None:
        if stream == PROGRESS:
            self._take_progress(process, text)
            return
        self._console.put(process, stream, text)
        lost = lost_by(text)
        if lost.ranks:
            self._accused[process.rank] = lost

    def _take_progress(self, process: Process, text: str) -> None:
        message = json.loads(text)
        if "at" in message:
            self._note_position(*message["at"])
            return
        if "phase" not in message:
            self._console.take_progress(process, message)
            return
        name = message["phase"]
        self._num_reports[name] += 1
        self.phases[name] = time.monotonic()
        if name == FIRST_STEP and self._num_reports[name] == sum(each.is_worker for each in self._plan):
            recovery = self.recovery()
            if recovery is not None:
                self._console.say(recovery)

    def _note_position(self, epoch_num: int, step: int) -> None:
        self.step = step
        if self._began_at is None:
            self._began_at = epoch_num, step
        begun = self._began_at
        if not self._is_ending and self._is_to_make_room(step - begun[1], epoch_num - begun[0]):
            self.is_making_room, self.failed_at = True, time.monotonic()
            self._end(signal.SIGTERM, self._job.grace_secs)

    def _complain(self, link: Link) -> None:
        if not link.read_errors():
            self._selector.unregister(link.errors)

    def _note_end(self, link: Link, report: Mapping[str, Any]) -> None:
        process, code = self._plan[report["rank"]], report.get("code")
        link.running.discard(process.rank)
        if code == 0 or self._is_ending:
            return
        if code == EXIT_PEER_LOST:
            self._survivors.add(process.rank)
            lost = self._accused.get(process.rank)
            secs = _UNNAMED_SECS if lost is None or lost.have_failed else _NAMED_SECS
            self._blame_at = min(self._blame_at, time.monotonic() + secs)
            return
        if code is not None and code < 0 and process.is_worker:
            self.lost.add(process.rank)
        self._fail(JobFailure(report.get("failed") or cause_of_death(code), process, code))

    def _blame(self) -> None:
        """Name the process that the others have lost, once it is clear that it does not end by itself."""
        running = {rank for link in self._links for rank in link.running if self._plan[rank].job != "evaluator"}
        if running and time.monotonic() < self._blame_at:
            return
        votes = Counter(rank for lost in self._accused.values() for rank in lost.ranks if rank < len(self._plan))
        named = sorted(votes.keys() - self._survivors) or sorted(running)
        told = f"rank{'s' if len(self._survivors) > 1 else ''} {', '.join(map(str, sorted(self._survivors)))}"
        cause = next((lost for lost in self._accused.values() if set(named) & set(lost.ranks)), LostRanks())
        if named and cause.have_failed:
            text = f'{told} reported "{cause.text}", and it had not ended {_UNNAMED_SECS:g} s later'
        elif named:
            self.lost |= {rank for rank in named if self._plan[rank].is_worker}
            said = f'"{cause.text}"' if cause.text else "it as lost"
            text = f"{told} reported {said}, and it did not end by itself"
        else:
            # Each side of a network partition has lost the other; the majority decides.
            named = [max(votes, key=lambda rank: (votes[rank], rank), default=min(self._survivors))]
            text = f"was lost by others and has lost them too: {told} could not reach each other"
        self._fail(JobFailure(text, self._plan[named[0]]))
        if not cause.have_failed:
            for link in self._links:
                link.order("signal", signum=signal.SIGKILL, ranks=sorted(link.running & set(named)))

    def _note_gone(self, link: Link) -> None:
        """Report the end of an agent, if it was not an orderly one."""
        if link.is_done:
            return
        self.gone.add(link.host)
        link.drain_errors()
        ranks, link.running = sorted(link.running), set()
        self.lost |= {process.rank for process in self._of(link.host) if process.is_worker}
        if self._is_ending:
            return
        what = "was lost" if self._was_started else "could not be reached"
        said = "".join(f"\n    {line}" for line in link.last_lines)
        process = self._plan[ranks[0]] if ranks else None
        self._fail(JobFailure(f"{link.host.name} {what}{said}", process, host=link.host))

    def _fail(self, failure: JobFailure) -> None:
        self.failure, self.failed_at = failure, time.monotonic()
        self._end(signal.SIGTERM, self._job.grace_secs)

    def _end(self, signum: int, grace_secs: float) -> None:
        self._is_ending = True
        self._blame_at = math.inf
        self._give_up_at = time.monotonic() + (grace_secs + _AGENT_SECS if self._was_started else _UNSTARTED_SECS)
        for link in self._links:
            if link.has_ended:
                continue
            if self._was_started:
                link.order("end", signum=signum, grace_secs=grace_secs)
            else:
                link.order("start", processes=[], directory=self._job.directory)

    # Signals.

    def _take_signal(self, signum: int) -> None:
        """Forward a signal: the second leaves little time, the third none."""
        told = signal.SIGTERM if signum == signal.SIGHUP else signum
        name = signal.Signals(signum).name
        if self.signum is None:
            self.signum = signum
            self._console.say(f"{name}: all processes are told; they have {self._job.grace_secs:g} s to end")
            self._end(told, self._job.grace_secs)
        elif self._hurries:
            self._end(signal.SIGKILL, 0.0)
        else:
            self._hurries = True
            self._console.say(f"{name} once more: they have {HURRY_SECS:g} s to end; once more ends them at once")
            self._end(told, HURRY_SECS)

    @contextmanager
    def _heard_signals(self) -> Iterator[None]:
        """Note signals and wake the loop; only in the main thread, which alone gets them."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        woken, waker = socket.socketpair()
        for end in (woken, waker):
            end.setblocking(False)
        previous_fd = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        self._selector.register(woken, selectors.EVENT_READ, lambda: woken.recv(4096))
        # A signal that is ignored, as under nohup, stays so.
        heard = [signum for signum in SIGNALS if signal.getsignal(signum) != signal.SIG_IGN]
        previous = {signum: signal.signal(signum, lambda number, _: self._signals.append(number)) for signum in heard}
        try:
            yield
        finally:
            for signum, handler in previous.items():
                signal.signal(signum, handler)
            signal.set_wakeup_fd(previous_fd)
            woken.close()
            waker.close()
