"""Send signals to trainings in all their phases, and hold what they leave to a training that nobody disturbed."""

import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import psutil

from tests.helpers import preloaded
from tests.helpers.source import ROOT

SCRIPT = ROOT / "tests" / "helpers" / "interruptible.py"
PHASES = ("graph", "session", "restoring", "training", "step", "epoch end", "saving", "ending")
"""What every training does, in order."""

_POLL_SECS = 0.002
_GAP_SECS = 0.05
_LONGEST_SECS = 300.0
_CODES = {signal.SIGINT: (130, -signal.SIGINT), signal.SIGTERM: (143, -signal.SIGTERM)}


@dataclass(frozen=True)
class Plan:
    """What is done to one training.

    Attributes:
        source: Where its data come from.
        phase: What it does when the signal comes; or what never ends.
        hangs: Whether that phase never ends.
        occurrence: The how manieth time it does so.
        delay_secs: How long after that.
        signals: The signals, the second right after the first.
        faster: How much sooner than usual what waits is let go.
    """

    source: str
    phase: str
    hangs: bool
    occurrence: int
    delay_secs: float
    signals: tuple[signal.Signals, ...]
    faster: float = 1.0

    @property
    def limit_secs(self) -> float:
        """How long the training may live after the last signal."""
        return 1.0 if len(self.signals) > 1 else 25.0 / self.faster

    @property
    def codes(self) -> tuple[int, ...]:
        """The exit codes that are right."""
        return (*_CODES[self.signals[0]], *_CODES[self.signals[-1]])


@dataclass(frozen=True)
class Outcome:
    """How a training ended.

    Attributes:
        code: Its exit code.
        secs: How long it lived after the last signal.
        came: Whether the signal came before it had ended by itself.
        faults: What was wrong.
    """

    code: int
    secs: float
    came: bool
    faults: tuple[str, ...]


def try_plan(plan: Plan, directory: Path, slowness_secs: float = 1.0) -> Outcome:
    """Run a training, send it signals, let it go on to its end, and compare.

    Args:
        plan: What is done to it.
        directory: Where it works; it must not exist.
        slowness_secs: How much longer than promised the end may take on a machine that is busy with other things.
    """
    directory.mkdir(parents=True)
    run = _Running(directory, plan)
    came = run.wait_for(plan.phase, plan.occurrence)
    before = run.children()
    sent_at = time.monotonic()
    if came:
        time.sleep(plan.delay_secs)
        for signum in plan.signals:
            came = run.send(signum) and came
            sent_at = time.monotonic()
            # Two of the same kind, one right after the other, are one.
            time.sleep(_GAP_SECS)
    code = run.finish()
    secs = time.monotonic() - sent_at
    faults = []
    if came and code not in plan.codes:
        faults.append(f"exit code {code}")
    # Python ends by itself, slowly, if training had ended when the second signal came.
    limit_secs = plan.limit_secs if code != -signal.SIGINT else 25.0
    if came and secs > limit_secs + slowness_secs:
        faults.append(f"ended after {secs:.1f} s")
    faults += [f"left process {child.pid}" for child in before if _outlives(child)]
    _, code_after = _run(directory, plan.source)
    if code_after:
        faults.append(f"the resumed training ended with {code_after}")
    elif not _same_weights(directory, _undisturbed(plan.source)):
        faults.append("other weights")
    return Outcome(code, secs if came else 0.0, came, tuple(faults))


class _Running:
    """A training that runs in another process, started by a thread that waits for its end."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        self._phases = directory / "phases.txt"
        arguments = ["--faster", str(plan.faster), *(("--hang", plan.phase) if plan.hangs else ())]
        self._results: list[int] = []
        self._thread = threading.Thread(
            target=lambda: self._results.append(_run(directory, plan.source, *arguments)[1]), daemon=True
        )
        self._thread.start()

    def _lines(self) -> list[str]:
        return self._phases.read_text().splitlines() if self._phases.exists() else []

    def wait_for(self, phase: str, occurrence: int) -> bool:
        """Wait until a phase has begun so often; return False if the training ends before."""
        return self._wait(lambda: self._lines().count(phase) >= occurrence)

    def _wait(self, condition: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + _LONGEST_SECS
        while not condition():
            if not self._thread.is_alive():
                return False
            if time.monotonic() > deadline:
                self.send(signal.SIGKILL)
            time.sleep(_POLL_SECS)
        return True

    def children(self) -> list[psutil.Process]:
        """Return the processes that the training has started."""
        try:
            return psutil.Process(int(self._lines()[0])).children(recursive=True)
        except (psutil.Error, IndexError):
            return []

    def send(self, signum: signal.Signals) -> bool:
        """Send a signal; return False if the training has ended."""
        try:
            os.kill(int(self._lines()[0]), signum)
        except ProcessLookupError:
            return False
        return self._thread.is_alive() and "finished" not in self._lines()

    def finish(self) -> int:
        """Wait for the end and return the exit code."""
        self._wait(lambda: not self._thread.is_alive())
        self._thread.join()
        return self._results[0]


def _run(directory: Path, source: str, *arguments: str) -> tuple[str, int]:
    done = preloaded.run(
        SCRIPT, [directory / "log", "--source", source, *arguments], module="tests.helpers.interruptible"
    )
    (directory / f"stderr{len(list(directory.glob('stderr*')))}.txt").write_text(done.stderr)
    return done.stdout, done.returncode


@cache
def _undisturbed(source: str) -> Path:
    """Return the directory of a training that nobody disturbed."""
    directory = Path(f"{_scratch()}/undisturbed-{source}")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    _, code = _run(directory, source)
    assert code == 0, f"the training that nobody disturbed ended with {code}, see {directory}"
    return directory


def _scratch() -> str:
    return f"/tmp/tpack-signals-{os.getpid()}"


def _same_weights(directory: Path, other: Path) -> bool:
    if not (directory / "weights.npz").exists():
        return False
    ours, theirs = np.load(directory / "weights.npz"), np.load(other / "weights.npz")
    return set(ours) == set(theirs) and all(np.array_equal(ours[name], theirs[name]) for name in ours)


def _outlives(child: psutil.Process) -> bool:
    """Tell whether a child lives on although its owner has ended."""
    try:
        child.wait(2.0)
    except psutil.TimeoutExpired:
        return True
    except psutil.Error:
        return False
    return False


def random_plan(chance: random.Random, sources: tuple[str, ...], hangs: tuple[str, ...]) -> Plan:
    """Draw a plan: one in five is of what never ends."""
    signums = (signal.SIGINT, signal.SIGTERM)
    first = chance.choice(signums)
    signals = (first, chance.choice(signums)) if chance.random() < 0.2 else (first,)
    if chance.random() < 0.2:
        phase = chance.choice(hangs)
        source = chance.choice(sources)
        return Plan(source, phase, True, 1, chance.random() * 0.3, signals, faster=4.0)
    phase = chance.choice(PHASES)
    occurrence = chance.randint(1, 25) if phase == "step" else chance.randint(1, 2) if phase in ("saving",) else 1
    return Plan(chance.choice(sources), phase, False, occurrence, chance.random() * 0.1, signals)
