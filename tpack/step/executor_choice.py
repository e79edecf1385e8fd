"""Choose who runs the kernels of a small step: TensorFlow's thread pool or the calling thread.

Handing a step to the thread pool costs tens of microseconds. The calling thread saves them and gives up running
independent kernels side by side, so it wins on small graphs and loses on large ones. Which one a graph is shows only by
measuring: the first steps of a run are timed both ways, alternately, and the faster way is kept.

A step may fetch more than the one before, and each set of fetches is a plan of its own. The first few plans are timed,
each for itself, and whichever has been run often enough first, the usual step, decides for all.
"""

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from tpack.errors import ConfigError
from tpack.step.fetch_plan import FetchPlan
from tpack.utils import logger

EXECUTORS = ("auto", "pool", "caller")

WARMUP_STEPS = 20
"""Steps before the first timed one: the first runs of a graph allocate and compile."""

TRIAL_STEPS = 40
"""Timed steps for each way."""

BLOCK_STEPS = 10
"""The two ways take turns in blocks of this many steps, so that a passing disturbance meets both."""

MAX_TRIALS = 4
"""How many plans are timed; any others are run in the pool until there is an answer."""

MAX_STEP_SECS = 2e-3
"""A step that takes longer is left to the pool: handing it over is less than a few percent of it."""


class ExecutorChoice:
    """Runs fetch plans, and on the way finds out how to run them faster.

    Args:
        executor: ``"pool"`` or ``"caller"`` fixes the choice; ``"auto"`` measures.

    Raises:
        ConfigError: ``executor`` is something else.
    """

    def __init__(self, executor: str) -> None:
        if executor not in EXECUTORS:
            raise ConfigError(f"executor must be one of {', '.join(EXECUTORS)}, got {executor!r}")
        self.in_caller_thread: bool | None = {"auto": None, "pool": False, "caller": True}[executor]
        self._trials: dict[FetchPlan, _Trial] = {}

    def run(self, plan: FetchPlan, *feed_values: np.ndarray, num_steps: int = 1) -> Any:
        """Run ``plan`` once on the values of its feeds and return what it returns; the run makes so many steps."""
        if self.in_caller_thread is not None:
            if plan.in_caller_thread != self.in_caller_thread:
                plan.use_caller_thread(self.in_caller_thread)
            return plan.run(*feed_values)
        trial = self._trials.get(plan)
        if trial is None:
            if len(self._trials) == MAX_TRIALS:
                return plan.run(*feed_values)
            trial = self._trials[plan] = _Trial(plan)
        values = trial.run(num_steps, feed_values)
        if trial.answer is not None:
            self.in_caller_thread = trial.answer
            self._trials.clear()
        return values


class _Trial:
    """Times one plan both ways; the answer is None until there is one."""

    def __init__(self, plan: FetchPlan) -> None:
        self.plan = plan
        self.answer: bool | None = None
        self._steps = 0
        self._times: dict[bool, list[float]] = {False: [], True: []}

    def run(self, num_steps: int, feed_values: Sequence[np.ndarray]) -> Any:
        start = time.perf_counter()
        values = self.plan.run(*feed_values)
        elapsed = time.perf_counter() - start
        if self._steps >= WARMUP_STEPS:
            self._note(elapsed / num_steps, num_steps)
        self._steps += num_steps
        return values

    def _note(self, step_secs: float, num_steps: int) -> None:
        way = self.plan.in_caller_thread
        # A run of several steps tells of each how long it took on average; more than a block would not tell more.
        left_in_block = BLOCK_STEPS - len(self._times[way]) % BLOCK_STEPS
        self._times[way] += [step_secs] * min(num_steps, left_in_block)
        if len(self._times[False]) < BLOCK_STEPS or len(self._times[way]) % BLOCK_STEPS:
            return
        pool = median(self._times[False])
        if pool > MAX_STEP_SECS:
            self._settle(False, f"a step of {pool * 1e3:.1f} ms is too long to gain from the calling thread")
        elif len(self._times[False]) == len(self._times[True]) == TRIAL_STEPS:
            caller = median(self._times[True])
            self._settle(
                caller < pool, f"{pool * 1e6:.0f} us a step in the pool, {caller * 1e6:.0f} in the calling thread"
            )
        else:
            self.plan.use_caller_thread(not way)

    def _settle(self, answer: bool, reason: str) -> None:
        self.answer = answer
        logger.info(f"Steps run in {'the calling thread' if answer else 'the thread pool'}: {reason}.")
