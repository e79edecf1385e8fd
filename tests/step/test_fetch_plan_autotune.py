"""The choice of the way to run steps, on a clock that the test turns."""

import pytest

from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError
from tpack.step import fetch_plan
from tpack.step.fetch_plan import BLOCK_STEPS, EXECUTORS, MAX_STEP_SECS, MAX_TRIALS, NUM_BLOCKS, Autotuner, Way
from tpack.step.loop_graph import LoopPlan

ALL_STEPS = 2 * BLOCK_STEPS * (NUM_BLOCKS + 1)
POOL, CALLER, LOOP = Way(), Way(in_caller_thread=True), Way(in_loop=True)


class Clock:
    """Time that passes only when a plan runs."""

    now = 0.0


class FakePlan:
    """Takes some seconds in each way, and remembers how it was run; its other plan stands for the compiled step."""

    makes_several_steps = False

    def __init__(self, clock, secs, other=None):
        self.clock, self.secs = clock, secs if isinstance(secs, dict) else {POOL: secs, CALLER: secs}
        self.other = self if other is None else other
        self.way = POOL
        self.used = []

    def with_others(self, in_place_of):
        assert in_place_of == "copies"
        return self.other

    def ways(self, executor):
        return [Way(thread) for thread in EXECUTORS[executor]]

    def use(self, way):
        self.way = way

    def run(self, *args):
        secs = self.secs[self.way]
        self.clock.now += secs(len(self.used)) if callable(secs) else secs
        self.used.append(self.way)
        return ["value", *args]


class FakeCopy:
    in_place_of = "copies"


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(fetch_plan.time, "perf_counter", lambda: clock.now)
    return clock


def fast_in_caller(clock, pool=40e-6, caller=10e-6):
    return FakePlan(clock, {POOL: pool, CALLER: caller})


def run(tuner, plan, steps):
    for step in range(steps):
        assert tuner.run(plan, step) == ["value", step]


def chosen(tuner):
    return tuner.chosen.get(FakePlan)


def test_an_unknown_executor_is_an_error():
    with pytest.raises(ConfigError, match="executor='thread': expected one of 'auto', 'pool', 'caller'"):
        Autotuner("thread")


@pytest.mark.parametrize(("executor", "way"), [("pool", POOL), ("caller", CALLER)])
def test_a_fixed_executor_is_not_measured(clock, executor, way):
    plan = FakePlan(clock, 1e-6)
    with captured_log() as lines:
        run(Autotuner(executor), plan, ALL_STEPS)
    assert set(plan.used) == {way}
    assert not [line for line in lines if "Steps run in" in line]


@pytest.mark.parametrize(
    ("pool", "caller", "answer", "said"),
    [
        (40e-6, 10e-6, CALLER, "Steps run in the calling thread: 40 us a step in the pool, 10 in the calling thread."),
        (40e-6, 90e-6, POOL, "Steps run in the thread pool: 40 us a step in the pool, 90 in the calling thread."),
        (40e-6, 40e-6, POOL, "Steps run in the thread pool: 40 us"),
    ],
)
def test_the_faster_executor_is_kept_and_said_once(clock, pool, caller, answer, said):
    tuner, plan = Autotuner("auto"), fast_in_caller(clock, pool, caller)
    with captured_log() as lines:
        run(tuner, plan, ALL_STEPS - 1)
        assert chosen(tuner) is None
        run(tuner, plan, 100)
    assert chosen(tuner) == answer
    assert plan.used[ALL_STEPS:] == [answer] * 99
    assert [line for line in lines if "Steps run in" in line] == [line for line in lines if line.startswith(said)]
    assert len([line for line in lines if "Steps run in" in line]) == 1


def test_runs_of_several_steps_are_judged_by_the_step(clock):
    # A run takes longer than a step may, a step of it does not.
    tuner, plan = Autotuner("auto"), fast_in_caller(clock, 50 * MAX_STEP_SECS, 20 * MAX_STEP_SECS)
    with captured_log() as lines:
        for _ in range(2 * (NUM_BLOCKS + 1)):
            assert chosen(tuner) is None
            tuner.run(plan, 1, num_steps=100)
    assert chosen(tuner) == CALLER
    assert plan.used == [POOL, POOL, CALLER, CALLER, *[POOL, CALLER] * (NUM_BLOCKS - 1)]
    assert any("1000 us a step in the pool, 400 in the calling thread" in line for line in lines)


def test_ways_take_turns_in_blocks_after_one_that_is_not_timed(clock):
    plan = fast_in_caller(clock)
    plan.secs[CALLER] = lambda run: 1.0 if run < 3 * BLOCK_STEPS else 1e-6
    tuner = Autotuner("auto")
    run(tuner, plan, ALL_STEPS)
    blocks = [POOL, POOL, CALLER, CALLER, *[POOL, CALLER] * (NUM_BLOCKS - 1)]
    assert plan.used == [way for way in blocks for _ in range(BLOCK_STEPS)]
    assert chosen(tuner) == CALLER


def test_a_few_slow_steps_do_not_decide(clock):
    tuner, plan = Autotuner("auto"), fast_in_caller(clock)
    plan.secs[CALLER] = lambda run: 1.0 if run % 5 == 0 else 10e-6
    run(tuner, plan, ALL_STEPS)
    assert chosen(tuner) == CALLER


def test_a_long_step_stays_in_the_pool_after_one_timed_block(clock):
    tuner, plan = Autotuner("auto"), fast_in_caller(clock, 2 * MAX_STEP_SECS)
    with captured_log() as lines:
        run(tuner, plan, 2 * BLOCK_STEPS)
    assert chosen(tuner) == POOL
    assert set(plan.used) == {POOL}
    assert [line for line in lines if "Steps run in the thread pool: a step of 4.0 ms is too long" in line]


@pytest.mark.parametrize(
    ("usual_secs", "way"),
    [((), CALLER), ((10e-6, 90e-6), POOL)],
    ids=["the usual step decides though another came first", "a plan in the middle of its trial follows"],
)
def test_the_usual_step_decides_for_all(clock, usual_secs, way):
    tuner = Autotuner("auto")
    rare, usual = fast_in_caller(clock, 10e-6, 90e-6), fast_in_caller(clock, *usual_secs)
    run(tuner, rare, 2 * BLOCK_STEPS + 1)
    assert rare.way == CALLER
    run(tuner, usual, ALL_STEPS)
    assert chosen(tuner) == way
    run(tuner, rare, 5)
    assert rare.used[-5:] == [way] * 5


def test_plans_beyond_the_first_few_are_not_measured(clock):
    tuner = Autotuner("auto")
    plans = [fast_in_caller(clock) for _ in range(MAX_TRIALS + 1)]
    for plan in plans:
        run(tuner, plan, 1)
    run(tuner, plans[-1], 2 * ALL_STEPS)
    assert chosen(tuner) is None
    assert set(plans[-1].used) == {POOL}
    run(tuner, plans[0], ALL_STEPS - 1)
    assert chosen(tuner) == CALLER
    run(tuner, plans[-1], 1)
    assert plans[-1].used[-1] == CALLER


# Compiled steps.


def compiling(num_run):
    """Compile in the first two steps, for long."""
    return 100.0 if num_run < 2 else 1.0


@pytest.mark.parametrize(
    ("plain", "compiled", "answer"),
    [(2.0, compiling, True), (0.5, compiling, False), (2.0, lambda k: 9.0 if k % 5 == 3 else 1.0, False)],
    ids=["compiled", "plain", "compiled-again-and-again"],
)
def test_the_faster_of_compiled_and_uncompiled_steps_is_kept(clock, plain, compiled, answer):
    compiled = FakePlan(clock, compiled)
    plan, tuner = FakePlan(clock, plain, compiled), Autotuner("pool", FakeCopy())
    run(tuner, plan, ALL_STEPS - 1)
    assert tuner.is_compiled is None
    with captured_log() as log:
        run(tuner, plan, 1)
    assert tuner.is_compiled is answer
    assert len(plan.used) == len(compiled.used) == ALL_STEPS // 2
    (line,) = log
    assert f"Steps run {'compiled by XLA' if answer else 'uncompiled'}: {plain * 1e3:.3g} ms a step uncompi" in line
    run(tuner, plan, 7)
    assert len((compiled if answer else plan).used) == ALL_STEPS // 2 + 7


def test_a_plan_without_anything_compiled_is_not_timed(clock):
    plan, tuner = FakePlan(clock, 1.0), Autotuner("pool", FakeCopy())
    run(tuner, plan, 2 * ALL_STEPS)
    assert tuner.is_compiled is None
    assert len(plan.used) == 2 * ALL_STEPS


def test_few_plans_are_timed_and_others_wait_uncompiled(clock):
    tuner = Autotuner("pool", FakeCopy())
    rare = [FakePlan(clock, 2.0, FakePlan(clock, 1.0)) for _ in range(MAX_TRIALS)]
    usual, late = rare[0], FakePlan(clock, 2.0, FakePlan(clock, 1.0))
    for plan in rare:
        run(tuner, plan, 1)
    run(tuner, late, ALL_STEPS)
    assert (len(late.used), len(late.other.used)) == (ALL_STEPS, 0)
    run(tuner, usual, ALL_STEPS - 1)
    assert tuner.is_compiled
    run(tuner, late, 3)
    assert len(late.other.used) == 3


@pytest.mark.parametrize(("executor", "way"), [("auto", POOL), ("caller", CALLER)])
def test_the_executor_is_measured_after_compilation(clock, executor, way):
    plan = FakePlan(clock, 2.0, FakePlan(clock, 1.0))
    tuner = Autotuner(executor, FakeCopy())
    run(tuner, plan, ALL_STEPS)
    assert tuner.is_compiled
    assert set(plan.used) == set(plan.other.used) == {way}
    run(tuner, plan, 100)
    # Such long steps are left to the pool.
    assert chosen(tuner) == way


# Several steps.


class FakeSeveral(FakePlan, LoopPlan):
    """Three ways to make several steps."""

    makes_several_steps = True

    def ways(self, executor):
        return [POOL, CALLER, LOOP]


@pytest.mark.parametrize(
    ("secs", "answer", "said"),
    [
        (
            {POOL: 49e-4, CALLER: 33e-4, LOOP: 46e-4},
            CALLER,
            "Steps run one by one in the calling thread: 49 us a step one by one in the pool, 33 one by one in the "
            "calling thread, 46 in a loop of the graph in the pool.",
        ),
        ({POOL: 49e-4, CALLER: 99e-4, LOOP: 46e-4}, LOOP, "Steps run in a loop of the graph in the thread pool: 49 us"),
        ({POOL: 1.0, CALLER: 0.1, LOOP: 0.1}, POOL, "Steps run one by one in the thread pool: a step of 10.0 ms is"),
    ],
    ids=["caller", "loop", "long"],
)
def test_several_steps_are_a_loop_only_where_that_is_faster(clock, secs, answer, said):
    tuner, plan = Autotuner("auto"), FakeSeveral(clock, secs)
    with captured_log() as lines:
        for _ in range(3 * (NUM_BLOCKS + 1)):
            tuner.run(plan, num_steps=100)
    assert tuner.chosen == {FakeSeveral: answer}
    assert [line for line in lines if line.startswith(said)]
