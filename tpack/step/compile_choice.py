"""Choose whether steps are compiled: the first ones are made both ways in turns, and the faster way is kept.

Both ways make the same steps, up to rounding, so the steps of the trial are steps of the training. A way is left out of
the comparison for a few steps after it is first taken, since XLA compiles in them.
"""

import time
from collections.abc import Sequence
from statistics import mean, median
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tpack.step.compiled_copy import CompiledCopy
from tpack.step.executor_choice import ExecutorChoice
from tpack.step.fetch_plan import FetchPlan
from tpack.utils import logger

BLOCK_STEPS = 5
"""The two ways take turns in blocks of this many steps, so that a passing disturbance meets both."""

NUM_BLOCKS = 5
"""Timed blocks for each way. One that is not timed comes before, in which TensorFlow prepares the step and compiles."""

MAX_TRIALS = 4
"""How many plans are timed; any others run uncompiled until there is an answer."""


class CompileChoice:
    """Runs fetch plans, and on the way finds out whether to run them in a compiled copy of the step.

    Args:
        copy: the compiled copy.
        executor: who runs the kernels; if that is to be measured, it is once this choice is made.

    Attributes:
        is_compiled: the choice; None until it is made.
    """

    def __init__(self, copy: CompiledCopy, executor: ExecutorChoice) -> None:
        self.is_compiled: bool | None = None
        self._copy = copy
        self._executor = executor
        self._compiled: WeakKeyDictionary[FetchPlan, FetchPlan] = WeakKeyDictionary()
        self._trials: dict[FetchPlan, _Trial] = {}

    def run(self, plan: FetchPlan, *feed_values: np.ndarray, num_steps: int = 1) -> Any:
        """Run ``plan`` once on the values of its feeds and return what it returns; the run makes so many steps."""
        if self.is_compiled is not None:
            chosen = self._in_copy(plan) if self.is_compiled else plan
            return self._executor.run(chosen, *feed_values, num_steps=num_steps)
        trial = self._trial_of(plan)
        if trial is None:
            return self._run_meanwhile(plan, feed_values)
        start = time.perf_counter()
        values = self._run_meanwhile(self._in_copy(plan) if trial.is_compiled else plan, feed_values)
        trial.note((time.perf_counter() - start) / num_steps, num_steps)
        if trial.answer is not None:
            self.is_compiled = trial.answer
            self._trials.clear()
        return values

    def _in_copy(self, plan: FetchPlan) -> FetchPlan:
        if plan not in self._compiled:
            self._compiled[plan] = plan.with_others(self._copy.in_place_of)
        return self._compiled[plan]

    def _trial_of(self, plan: FetchPlan) -> "_Trial | None":
        """Return the trial of a plan, if it has one: it must run something that is compiled in the copy."""
        if plan not in self._trials and len(self._trials) < MAX_TRIALS and self._in_copy(plan) is not plan:
            self._trials[plan] = _Trial()
        return self._trials.get(plan)

    def _run_meanwhile(self, plan: FetchPlan, feed_values: Sequence[np.ndarray]) -> Any:
        """Run a plan, in the pool if who runs the kernels is to be measured: another thread would compile it anew."""
        in_caller_thread = bool(self._executor.in_caller_thread)
        if plan.in_caller_thread != in_caller_thread:
            plan.use_caller_thread(in_caller_thread)
        return plan.run(*feed_values)


class _Trial:
    """Times one plan both ways.

    Attributes:
        is_compiled: which way is taken now.
        answer: whether the compiled one is the faster; None until that is known.
    """

    def __init__(self) -> None:
        self.is_compiled = False
        self.answer: bool | None = None
        self._in_block: list[float] = []
        self._blocks: dict[bool, list[float]] = {False: [], True: []}

    def note(self, step_secs: float, num_steps: int) -> None:
        """Take note of how long each of some steps took, the way that is taken now."""
        self._in_block += [step_secs] * num_steps
        if len(self._in_block) < BLOCK_STEPS:
            return
        # The mean of a block, so that what is compiled again and again, for new shapes, counts.
        self._blocks[self.is_compiled].append(mean(self._in_block))
        self._in_block = []
        self.is_compiled = not self.is_compiled
        if min(map(len, self._blocks.values())) > NUM_BLOCKS:
            self._settle()

    def _settle(self) -> None:
        plain, compiled = (median(self._blocks[way][1:]) for way in (False, True))
        self.answer = compiled < plain
        logger.info(
            f"Steps run {'compiled by XLA' if self.answer else 'uncompiled'}: {plain * 1e3:.3g} ms a step uncompiled, "
            f"{compiled * 1e3:.3g} ms compiled."
        )
