"""The choice between the thread pool and the calling thread, on a clock that the test turns."""

import pytest

from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError
from tpack.step import executor_choice
from tpack.step.executor_choice import (
    BLOCK_STEPS,
    MAX_STEP_SECS,
    MAX_TRIALS,
    TRIAL_STEPS,
    WARMUP_STEPS,
    ExecutorChoice,
)

ALL_STEPS = WARMUP_STEPS + 2 * TRIAL_STEPS


class Clock:
    """Time that passes only when a plan runs."""

    now = 0.0


class FakePlan:
    """Takes so many seconds in the pool and so many in the calling thread, and remembers how it was run."""

    def __init__(self, clock, pool, caller):
        self.clock, self.secs = clock, {False: pool, True: caller}
        self.in_caller_thread = False
        self.ways = []

    def use_caller_thread(self, enable):
        self.in_caller_thread = enable

    def run(self, *feed_values):
        self.clock.now += self.secs[self.in_caller_thread]
        self.ways.append(self.in_caller_thread)
        return ["value", *feed_values]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(executor_choice.time, "perf_counter", lambda: clock.now)
    return clock


def run(choice, plan, steps):
    for step in range(steps):
        assert choice.run(plan, step) == ["value", step]


def test_an_unknown_executor_is_an_error():
    with pytest.raises(ConfigError, match="executor must be one of auto, pool, caller, got 'thread'"):
        ExecutorChoice("thread")


@pytest.mark.parametrize(("executor", "in_caller_thread"), [("pool", False), ("caller", True)])
def test_a_fixed_choice_is_not_measured(clock, executor, in_caller_thread):
    plan = FakePlan(clock, 1e-6, 1e-6)
    with captured_log() as lines:
        run(ExecutorChoice(executor), plan, ALL_STEPS)
    assert set(plan.ways) == {in_caller_thread}
    assert not [line for line in lines if "Steps run in" in line]


@pytest.mark.parametrize(
    ("pool", "caller", "answer", "said"),
    [
        (40e-6, 10e-6, True, "Steps run in the calling thread: 40 us a step in the pool, 10 in the calling thread."),
        (40e-6, 90e-6, False, "Steps run in the thread pool: 40 us a step in the pool, 90 in the calling thread."),
        (40e-6, 40e-6, False, "Steps run in the thread pool: 40 us"),
    ],
)
def test_the_faster_way_is_kept_and_said_once(clock, pool, caller, answer, said):
    choice, plan = ExecutorChoice("auto"), FakePlan(clock, pool, caller)
    with captured_log() as lines:
        run(choice, plan, ALL_STEPS - 1)
        assert choice.in_caller_thread is None
        run(choice, plan, 100)
    assert choice.in_caller_thread is answer
    assert plan.ways[ALL_STEPS:] == [answer] * 99
    assert [line for line in lines if "Steps run in" in line] == [line for line in lines if line.startswith(said)]
    assert len([line for line in lines if "Steps run in" in line]) == 1


def test_runs_of_several_steps_are_judged_by_the_step(clock):
    # A run takes longer than a step may, a step of it does not.
    choice, plan = ExecutorChoice("auto"), FakePlan(clock, 50 * MAX_STEP_SECS, 20 * MAX_STEP_SECS)
    with captured_log() as lines:
        for _ in range(1 + 2 * TRIAL_STEPS // BLOCK_STEPS):
            assert choice.in_caller_thread is None
            choice.run(plan, 1, num_steps=100)
    assert choice.in_caller_thread is True
    assert plan.ways == [False, False, True, False, True, False, True, False, True]
    assert any("1000 us a step in the pool, 400 in the calling thread" in line for line in lines)


def test_ways_take_turns_in_blocks_after_the_warm_up(clock):
    plan = FakePlan(clock, 1e-6, 1e-6)
    run(ExecutorChoice("auto"), plan, ALL_STEPS)
    assert plan.ways[:WARMUP_STEPS] == [False] * WARMUP_STEPS
    rounds = TRIAL_STEPS // BLOCK_STEPS
    assert plan.ways[WARMUP_STEPS:] == ([False] * BLOCK_STEPS + [True] * BLOCK_STEPS) * rounds


def test_a_few_slow_steps_do_not_decide(clock):
    choice, plan = ExecutorChoice("auto"), FakePlan(clock, 40e-6, 10e-6)
    for step in range(ALL_STEPS):
        plan.secs[True] = 1.0 if step % 5 == 0 else 10e-6
        choice.run(plan)
    assert choice.in_caller_thread is True


def test_a_long_step_stays_in_the_pool_after_one_block(clock):
    choice, plan = ExecutorChoice("auto"), FakePlan(clock, 2 * MAX_STEP_SECS, 1e-6)
    with captured_log() as lines:
        run(choice, plan, WARMUP_STEPS + BLOCK_STEPS)
    assert choice.in_caller_thread is False
    assert set(plan.ways) == {False}
    assert [line for line in lines if "Steps run in the thread pool: a step of 4.0 ms is too long" in line]


def test_the_usual_step_decides_for_all_though_another_came_first(clock):
    choice = ExecutorChoice("auto")
    rare, usual = FakePlan(clock, 10e-6, 90e-6), FakePlan(clock, 40e-6, 10e-6)
    run(choice, rare, WARMUP_STEPS + BLOCK_STEPS)
    assert rare.in_caller_thread is True
    run(choice, usual, ALL_STEPS)
    assert choice.in_caller_thread is True
    run(choice, rare, 5)
    assert rare.ways[-5:] == [True] * 5


def test_a_plan_in_the_middle_of_its_trial_follows_the_answer(clock):
    choice = ExecutorChoice("auto")
    rare, usual = FakePlan(clock, 10e-6, 90e-6), FakePlan(clock, 10e-6, 90e-6)
    run(choice, rare, WARMUP_STEPS + BLOCK_STEPS)
    run(choice, usual, ALL_STEPS)
    assert choice.in_caller_thread is False
    run(choice, rare, 5)
    assert rare.ways[-5:] == [False] * 5


def test_plans_beyond_the_first_few_are_not_measured(clock):
    choice = ExecutorChoice("auto")
    plans = [FakePlan(clock, 40e-6, 10e-6) for _ in range(MAX_TRIALS + 1)]
    for plan in plans:
        run(choice, plan, 1)
    run(choice, plans[-1], 2 * ALL_STEPS)
    assert choice.in_caller_thread is None
    assert set(plans[-1].ways) == {False}
    run(choice, plans[0], ALL_STEPS - 1)
    assert choice.in_caller_thread is True
    run(choice, plans[-1], 1)
    assert plans[-1].ways[-1] is True
