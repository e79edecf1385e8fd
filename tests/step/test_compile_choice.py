"""The choice between compiled steps and others, on a clock that the test turns."""

import pytest

from tests.helpers.log_lines import captured_log
from tpack.step import compile_choice
from tpack.step.compile_choice import BLOCK_STEPS, MAX_TRIALS, NUM_BLOCKS, CompileChoice
from tpack.step.executor_choice import ExecutorChoice

ALL_STEPS = 2 * BLOCK_STEPS * (NUM_BLOCKS + 1)


class Clock:
    """Time that passes only when a plan runs."""

    now = 0.0


class FakePlan:
    """Takes so many seconds and remembers who ran it; its other plan stands for the compiled step."""

    def __init__(self, clock, secs, other=None):
        self.clock, self.secs = clock, secs
        self.other = self if other is None else other
        self.in_caller_thread = False
        self.num_runs = 0

    def with_others(self, in_place_of):
        assert in_place_of == "copies"
        return self.other

    def use_caller_thread(self, enable):
        self.in_caller_thread = enable

    def run(self, *feed_values):
        self.clock.now += self.secs(self.num_runs) if callable(self.secs) else self.secs
        self.num_runs += 1
        return ["value", *feed_values]


class FakeCopy:
    in_place_of = "copies"


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(compile_choice.time, "perf_counter", lambda: clock.now)
    return clock


def make_choice(executor="pool"):
    return CompileChoice(FakeCopy(), ExecutorChoice(executor))


def run(choice, plan, steps):
    for step in range(steps):
        assert choice.run(plan, step) == ["value", step]


def compiling(num_run):
    """Compile in the first two steps, for long."""
    return 100.0 if num_run < 2 else 1.0


@pytest.mark.parametrize(
    ("plain", "compiled", "answer"),
    [(2.0, compiling, True), (0.5, compiling, False), (2.0, lambda k: 9.0 if k % 5 == 3 else 1.0, False)],
    ids=["compiled", "plain", "compiled-again-and-again"],
)
def test_the_faster_way_is_kept(clock, plain, compiled, answer):
    compiled = FakePlan(clock, compiled)
    plan, choice = FakePlan(clock, plain, compiled), make_choice()
    run(choice, plan, ALL_STEPS - 1)
    assert choice.is_compiled is None
    with captured_log() as log:
        run(choice, plan, 1)
    assert choice.is_compiled is answer
    assert plan.num_runs == compiled.num_runs == ALL_STEPS // 2
    (line,) = log
    assert f"Steps run {'compiled by XLA' if answer else 'uncompiled'}: {plain * 1e3:.3g} ms a step uncompi" in line
    run(choice, plan, 7)
    assert (compiled if answer else plan).num_runs == ALL_STEPS // 2 + 7


def test_a_plan_without_anything_compiled_is_not_timed(clock):
    plan, choice = FakePlan(clock, 1.0), make_choice()
    run(choice, plan, 2 * ALL_STEPS)
    assert choice.is_compiled is None
    assert plan.num_runs == 2 * ALL_STEPS


def test_few_plans_are_timed_and_others_wait_uncompiled(clock):
    choice = make_choice()
    rare = [FakePlan(clock, 2.0, FakePlan(clock, 1.0)) for _ in range(MAX_TRIALS)]
    usual, late = rare[0], FakePlan(clock, 2.0, FakePlan(clock, 1.0))
    for plan in rare:
        run(choice, plan, 1)
    run(choice, late, ALL_STEPS)
    assert (late.num_runs, late.other.num_runs) == (ALL_STEPS, 0)
    run(choice, usual, ALL_STEPS - 1)
    assert choice.is_compiled
    run(choice, late, 3)
    assert late.other.num_runs == 3


@pytest.mark.parametrize(("executor", "in_caller_thread"), [("auto", False), ("caller", True)])
def test_who_runs_the_kernels_is_measured_afterwards(clock, executor, in_caller_thread):
    plan = FakePlan(clock, 2.0, FakePlan(clock, 1.0))
    executors = ExecutorChoice(executor)
    choice = CompileChoice(FakeCopy(), executors)
    run(choice, plan, ALL_STEPS)
    assert choice.is_compiled
    assert plan.in_caller_thread is plan.other.in_caller_thread is in_caller_thread
    run(choice, plan, 100)
    # Such long steps are left to the pool.
    assert executors.in_caller_thread is in_caller_thread
