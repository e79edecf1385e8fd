"""Autotune the step in the run's own steps: compiled or not, on which executor, in a loop or one by one.

The thread pool of TensorFlow costs tens of microseconds a step. The calling thread saves them, and runs independent
kernels one after the other: it wins on small graphs and loses on large ones. A loop of several steps in the graph, or
XLA, may win or lose. All ways make the same steps (bit for bit; up to rounding for XLA), so the first steps of a run
are made in all ways in turns, and the fastest way is kept.

Each set of fetches is a plan. The first few plans are timed separately; the first result, of the usual step, holds for
all.
"""

import math
import time
from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tpack.step.fetch_plan import EXECUTORS, FetchPlan, Way
from tpack.utils import logger
from tpack.utils.validation import check_choice

if TYPE_CHECKING:
    from tpack.step.compiled_copy import CompiledCopy

BLOCK_STEPS = 10
"""The ways take turns in blocks of at least this many steps, so that a passing disturbance affects all."""

NUM_BLOCKS = 4
"""Timed blocks of each way. An untimed one comes before, in which TensorFlow prepares the step and compiles."""

MAX_TRIALS = 4
"""How many plans are timed; others wait in the first way until there is an answer."""

MAX_STEP_SECS = 2e-3
"""A longer step keeps the first way: its executor makes less than a few percent of it."""


class Autotuner:
    """Runs plans, and finds the fastest way to run them.

    Args:
        executor: ``"pool"`` or ``"caller"`` fixes the executor; ``"auto"`` measures.
        compiled: a compiled copy of the step, if any. It is decided first, on one executor, since XLA compiles again
            for another thread.

    Attributes:
        is_compiled: the first decision; None until it is made.
        chosen: the second one, for each kind of plan; empty until it is made.

    Raises:
        ConfigError: ``executor`` is another value.
    """

    def __init__(self, executor: str, compiled: "CompiledCopy | None" = None) -> None:
        self._executor = check_choice(self, "executor", executor, EXECUTORS)
        self._copy = compiled
        self.is_compiled: bool | None = False if compiled is None else None
        self.chosen: dict[type, Way] = {}
        self._in_copy: WeakKeyDictionary[FetchPlan, FetchPlan] = WeakKeyDictionary()
        self._trials: dict[Any, Trial] = {}

    def run(self, plan: Any, *args: Any, num_steps: int = 1) -> Any:
        """Run a plan with its arguments once and return its result.

        Args:
            plan: a `FetchPlan`, or a `LoopPlan` if there is no compiled copy.
            *args: for its `run`.
            num_steps: the number of steps of the run.
        """
        way = self.chosen.get(type(plan))
        if way is not None:
            used = self._compiled(plan) if self.is_compiled else plan
            if used.way is not way:
                used.use(way)
            return used.run(*args)
        if self.is_compiled is None:
            compiled = self._compiled(plan)
            trial = self._trial(plan, [False] if compiled is plan else [False, True], mean, math.inf)
            used = compiled if trial is not None and trial.way else plan
            way = used.ways(self._executor)[0]
        else:
            used = self._compiled(plan) if self.is_compiled else plan
            ways = used.ways(self._executor)
            trial = self._trial(used, ways, median, MAX_STEP_SECS)
            way = ways[0] if trial is None else trial.way
            if len(ways) == 1:
                self.chosen[type(plan)] = way
        if used.way != way:
            used.use(way)
        if trial is None:
            return used.run(*args)
        start = time.perf_counter()
        values = used.run(*args)
        trial.note((time.perf_counter() - start) / num_steps, num_steps)
        if trial.has_ended:
            self._settle(trial, type(plan))
        return values

    def _compiled(self, plan: FetchPlan) -> FetchPlan:
        if self._copy is None:
            return plan
        if plan not in self._in_copy:
            self._in_copy[plan] = plan.with_others(self._copy.in_place_of)
        return self._in_copy[plan]

    def _trial(
        self, plan: Any, ways: Sequence[Any], of_block: Callable[[list[float]], float], max_secs: float
    ) -> "Trial | None":
        """Return the trial of a plan; None for a single way, or if enough others are timed."""
        if len(ways) > 1 and plan not in self._trials and len(self._trials) < MAX_TRIALS:
            self._trials[plan] = Trial(ways, of_block, max_secs)
        return self._trials.get(plan)

    def _settle(self, trial: "Trial", kind: Any) -> None:
        self._trials.clear()
        times = trial.medians()
        way = min(times, key=lambda each: times[each])
        if self.is_compiled is None:
            self.is_compiled = way
            words, secs = ("compiled by XLA" if way else "uncompiled"), [f"{each * 1e3:.3g}" for each in times.values()]
            logger.info(f"Steps run {words}: {secs[0]} ms a step uncompiled, {secs[1]} ms compiled.")
            return
        self.chosen[kind] = way
        if len(times) == 1:
            reason = f"a step of {times[way] * 1e3:.1f} ms is too long to gain from other ways"
        else:
            told = [(f"{secs * 1e6:.0f}", _words(each, is_short=True, kind=kind)) for each, secs in times.items()]
            told[0] = (f"{told[0][0]} us a step", told[0][1])
            reason = ", ".join(" ".join(each) for each in told)
        logger.info(f"Steps run {_words(way, is_short=False, kind=kind)}: {reason}.")


class Trial:
    """Times the ways of one plan.

    Args:
        ways: the ways; the first is kept if no other is faster.
        of_block: summary of a block's steps: the mean, where rare slow steps count, such as compiling for new shapes,
            or the median.
        max_secs: a longer step of the first way ends the trial.

    Attributes:
        way: the way of the next run.
        has_ended: whether there is a result.
    """

    def __init__(self, ways: Sequence[Any], of_block: Callable[[list[float]], float], max_secs: float) -> None:
        self._of_block = of_block
        self._max_secs = max_secs
        self._in_block: list[float] = []
        self._blocks: dict[Any, list[float]] = {way: [] for way in ways}
        self.way = ways[0]
        self.has_ended = False

    def note(self, step_secs: float, num_steps: int) -> None:
        """Record the time of each step of a run."""
        self._in_block += [step_secs] * min(num_steps, BLOCK_STEPS)
        if len(self._in_block) < BLOCK_STEPS:
            return
        blocks = self._blocks[self.way]
        blocks.append(self._of_block(self._in_block))
        self._in_block = []
        if len(blocks) == 1:
            return
        fewest = min(self._blocks, key=lambda way: len(self._blocks[way]))
        is_too_long = not self._blocks[fewest] and len(blocks) == 2 and blocks[-1] > self._max_secs
        if is_too_long:
            self._blocks = {self.way: blocks}
        self.has_ended = is_too_long or len(self._blocks[fewest]) > NUM_BLOCKS
        self.way = fewest

    def medians(self) -> dict[Any, float]:
        """Return the seconds of a step in each way that was fully timed."""
        return {way: median(blocks[1:]) for way, blocks in self._blocks.items()}


def _words(way: Way, *, is_short: bool, kind: Any) -> str:
    pool = "in the pool" if is_short else "in the thread pool"
    thread = "in the calling thread" if way.in_caller_thread else pool
    if not kind.makes_several_steps:
        return thread
    return f"{'in a loop of the graph' if way.in_loop else 'one by one'} {thread}"
