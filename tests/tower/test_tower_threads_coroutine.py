import contextvars
import sys
import threading
import traceback

import pytest

from tpack.tower.tower_threads import Coroutine, CoroutineExit

VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


def conversation(*answers):
    """Return a coroutine that pauses once for each answer, and the log that both sides write."""
    log = []

    def func():
        for question in range(len(answers)):
            log.append(coroutine.pause(question))
        return "done"

    coroutine = Coroutine(func, "conversation")
    return coroutine, log


def threads_named(name):
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_values_go_both_ways_and_the_thread_ends():
    coroutine, log = conversation("a", "b")
    assert coroutine.resume() == 0
    assert coroutine.resume("a") == 1
    assert not coroutine.is_over
    assert coroutine.resume("b") == "done"
    assert coroutine.is_over
    assert log == ["a", "b"]
    assert threads_named("conversation") == []


def test_it_runs_only_while_it_is_waited_for():
    order = []

    def func():
        for step in range(3):
            order.append(f"inside {step}")
            coroutine.pause()

    coroutine = Coroutine(func, "turns")
    for step in range(3):
        coroutine.resume()
        order.append(f"outside {step}")
    coroutine.close()
    assert order == [f"{where} {step}" for step in range(3) for where in ("inside", "outside")]


def test_an_error_comes_out_with_its_own_traceback():
    def deep():
        raise ZeroDivisionError("mine")

    coroutine = Coroutine(lambda: deep(), "failing")
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        coroutine.resume()
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "deep"
    assert coroutine.is_over
    assert threads_named("failing") == []


def test_close_runs_what_cleans_up_and_ends_the_thread():
    cleaned = []

    def func():
        try:
            coroutine.pause()
        finally:
            cleaned.append(sys.exc_info()[0])

    coroutine = Coroutine(func, "closed")
    coroutine.resume()
    coroutine.close()
    assert cleaned == [CoroutineExit]
    assert coroutine.is_over
    assert threads_named("closed") == []
    coroutine.close()


def test_close_before_the_start_starts_nothing():
    coroutine = Coroutine(lambda: pytest.fail("was called"), "never")
    coroutine.close()
    assert threads_named("never") == []


def test_close_does_not_wait_for_one_that_swallows_the_exit_or_fails_at_it():
    def swallowing():
        for _ in range(3):
            try:
                stubborn.pause()
            except CoroutineExit:
                continue

    def raising():
        try:
            angry.pause()
        except CoroutineExit:
            raise ZeroDivisionError from None

    stubborn, angry = Coroutine(swallowing, "stubborn"), Coroutine(raising, "angry")
    for coroutine in (stubborn, angry):
        coroutine.resume()
        coroutine.close()
        assert coroutine.is_over
    assert threads_named("stubborn") + threads_named("angry") == []


def test_an_interrupted_wait_closes_the_coroutine_where_it_pauses(monkeypatch):
    reached = []

    def func():
        reached.append("end of the step")
        coroutine.pause()
        reached.append("after the pause")

    coroutine = Coroutine(func, "interrupted")
    waiting = coroutine._wait

    def interrupt():
        monkeypatch.setattr(coroutine, "_wait", waiting)
        raise KeyboardInterrupt

    monkeypatch.setattr(coroutine, "_wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        coroutine.resume()
    assert coroutine.is_over
    assert reached == ["end of the step"]
    assert threads_named("interrupted") == []


def test_context_variables_are_those_of_the_maker_or_given_ones():
    token = VARIABLE.set("made here")
    coroutine = Coroutine(VARIABLE.get, "variables")
    VARIABLE.reset(token)
    assert coroutine.resume() == "made here"
    given = contextvars.copy_context()
    given.run(VARIABLE.set, "given")
    assert Coroutine(VARIABLE.get, "variables", given).resume() == "given"
