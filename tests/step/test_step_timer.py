"""When something is due, by steps and by a clock of the test's own."""

from tpack.step.step_timer import StepTimer


def test_by_steps():
    timer = StepTimer(every_steps=3)
    timer.done(4)
    assert [timer.is_due(step) for step in (4, 5, 6, 7, 8)] == [False, False, False, True, True]
    timer.done(8)
    assert [timer.is_due(step) for step in (8, 10, 11)] == [False, False, True]


def test_by_seconds_and_the_rate():
    now = [100.0]
    timer = StepTimer(every_secs=10, clock=lambda: now[0])
    assert not timer.is_due(1)
    timer.done(50)
    now[0] = 104.0
    assert not timer.is_due(1000)
    assert timer.rate(58) == 2
    now[0] = 110.0
    assert timer.is_due(51)


def test_never_without_an_interval():
    for timer in (StepTimer(), StepTimer(every_steps=0), StepTimer(every_secs=0)):
        assert not timer.is_due(10**9)


def test_steps_left_are_those_of_the_period_or_half_of_those_in_the_time():
    times = iter([0.0, 10.0, 10.0, 40.0])
    assert StepTimer(every_steps=9, step=4).steps_left(6) == 7
    assert StepTimer(every_steps=2, step=4).steps_left(9) == 1
    timer = StepTimer(every_secs=30.0, clock=lambda: next(times))
    assert timer.steps_left(50) == 50
    assert StepTimer(every_secs=30.0, clock=lambda: 0.0).steps_left(0) == 1
