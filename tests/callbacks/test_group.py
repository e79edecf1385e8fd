import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks import group
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.group import Callbacks, ProxyCallback
from tpack.errors import CallbackError, StopTraining, WrongTypeError


class Named(Callback):
    def __init__(self, name, calls, *, reads_statistics=False, error=None):
        self.name, self.calls, self.error = name, calls, error
        self.reads_statistics = reads_statistics

    def _trigger(self):
        self.calls.append(("trigger", self.name))

    def _trigger_step(self):
        self.calls.append(("trigger_step", self.name))

    def _after_train(self):
        self.calls.append(("after_train", self.name))
        if self.error:
            raise self.error

    def failure(self):
        return self.error

    def __str__(self):
        return self.name


def test_statistics_are_read_after_all_reported_them(graph):
    calls = []
    reader = Named("reader", calls, reads_statistics=True)
    callbacks = [ProxyCallback(reader), Named("first", calls), Named("second", calls)]
    FakeTrainer().train(callbacks, steps_per_epoch=1, epochs=(1, 1))
    order = ["first", "second", "reader"]
    assert [name for hook, name in calls if hook == "trigger"] == order
    assert [name for hook, name in calls if hook == "trigger_step"] == order


@pytest.mark.parametrize("wrap", [lambda cb: cb, ProxyCallback, lambda cb: Callbacks([cb])])
def test_callback_used_twice_is_an_error_that_names_it(wrap):
    callback = Named("twin", [])
    with pytest.raises(CallbackError, match="Callbacks got twin twice"):
        Callbacks([callback, Callback(), wrap(callback)])


def test_something_else_than_a_callback_is_an_error():
    with pytest.raises(WrongTypeError, match=r"Callbacks got cbs\[0\]='x': expected a Callback"):
        Callbacks(["x"])


def test_groups_are_flattened_and_looked_through():
    first, second, third = Callback(), Callback(), Callback()
    proxy = ProxyCallback(Callbacks([second]))
    callbacks = Callbacks([Callbacks([first]), proxy, third])
    assert list(callbacks) == [first, proxy, third]
    assert len(callbacks) == 3
    assert callbacks.all_callbacks() == [first, proxy, second, third]


def test_step_callbacks_are_those_that_want_something_of_a_run():
    class Before(Callback):
        def _before_run(self, ctx):
            return None

    class After(Callback):
        def _after_run(self, ctx, values):
            pass

    before, after = Before(), After()
    callbacks = Callbacks([Callback(), before, after, Named("x", [])])
    assert callbacks.step_callbacks == [before, after]
    assert len(callbacks.get_hooks()) == 2


def test_group_implements_what_a_member_does():
    callbacks = Callbacks([Callback(), Named("x", [])])
    assert callbacks.implements("trigger_step")
    assert callbacks.implements("failure")
    assert not callbacks.implements("before_epoch")
    assert not callbacks.implements("before_run")


def test_every_member_gets_its_after_train_and_the_first_error_is_raised(graph):
    calls = []
    callbacks = [
        Named("fine", calls),
        Named("bad", calls, error=OSError("first")),
        Named("worse", calls, error=ValueError("second")),
        Named("last", calls),
    ]
    with captured_log() as lines, pytest.raises(OSError, match="first"):
        FakeTrainer().train(callbacks, epochs=(1, 0))
    assert [name for hook, name in calls if hook == "after_train"] == ["fine", "bad", "worse", "last"]
    assert [line for line in lines if "bad failed" in line or "worse failed" in line] == [
        "after_train of callback worse failed too: second"
    ]


def test_failure_is_that_of_the_first_member_that_has_one():
    error = OSError("thread died")
    assert Callbacks([Callback(), Named("x", [], error=error)]).failure() is error
    assert Callbacks([Callback()]).failure() is None


class FakeTime:
    def __init__(self, ticks):
        self.ticks = iter(ticks)

    def perf_counter(self):
        return next(self.ticks)


@pytest.mark.parametrize(
    ("ticks", "expected"),
    [([0, 1, 1, 1], []), ([0, 5, 5, 5.1], ["Callbacks took 5.1 seconds in total. slow: 5 seconds"])],
)
def test_slow_triggers_are_logged_by_name(graph, monkeypatch, ticks, expected):
    callbacks = Callbacks([Named("slow", []), Named("quick", [])])
    monkeypatch.setattr(group, "time", FakeTime(ticks))
    with captured_log() as lines:
        callbacks.trigger()
    assert lines == expected
    assert str(callbacks) == "Callbacks(slow, quick)"


def test_all_hooks_reach_the_members(graph):
    class Epochs(Callback):
        calls = 0

        def _before_epoch(self):
            self.calls += 1

        def _after_epoch(self):
            self.calls += 10

    callback = Epochs()
    FakeTrainer().train([callback], epochs=(1, 3))
    assert callback.calls == 33


def test_a_request_to_stop_waits_for_the_other_callbacks(graph):
    calls = []

    def stop(callback):
        calls.append("stop")
        raise StopTraining("first")

    def stop_too(callback):
        calls.append("stop too")
        raise StopTraining("second")

    members = [CallbackFactory(trigger=act) for act in (stop, stop_too, lambda cb: calls.append("save"))]
    group = Callbacks(members)
    group.setup_graph(FakeTrainer())
    for trigger in (group.trigger, group.trigger_epoch):
        calls.clear()
        with pytest.raises(StopTraining, match="first"):
            trigger()
        assert calls == ["stop", "stop too", "save"]


def test_who_adds_variables_is_set_up_before_the_others(graph):
    order = []

    class Adding(Callback):
        adds_variables = True

        def _setup_graph(self):
            order.append("adding")

    members = [CallbackFactory(setup_graph=lambda cb: order.append("first")), ProxyCallback(Adding())]
    group = Callbacks(members)
    assert group.adds_variables
    group.setup_graph(FakeTrainer())
    assert order == ["adding", "first"]
