from contextlib import contextmanager

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.toy_inference import flow
from tpack.callbacks.base import Callback
from tpack.callbacks.inference.inferencers import ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.callbacks.weight_averages.ema import EMA


class NotingEMA(EMA):
    """Notes whether averages are in use, and puts none in the place of weights."""

    in_use = False

    @contextmanager
    def averages_in_use(self):
        self.in_use = True
        yield
        self.in_use = False


class Watching(Callback):
    def __init__(self, ema):
        self.ema = ema
        self.seen = {}

    def _note(self, hook):
        self.seen[hook] = self.ema.in_use

    def _before_train(self):
        self._note("before_train")

    def _before_epoch(self):
        self._note("before_epoch")

    def _after_run(self, ctx, values):
        self._note("after_run")

    def _trigger_step(self):
        self._note("trigger_step")

    def _trigger_epoch(self):
        self._note("trigger_epoch")
        self.trigger()

    def _trigger(self):
        self._note("trigger")

    def _after_train(self):
        self._note("after_train")


def test_averages_are_in_use_while_the_callback_is_triggered(graph):
    ema = NotingEMA(0.5)
    watching = Watching(ema)
    proxy = ema.evaluate(watching)
    FakeTrainer().train([ema, proxy])
    expected = {"before_train": True, "trigger_step": True, "trigger_epoch": True, "trigger": True}
    assert watching.seen == {**expected, "before_epoch": False, "after_run": False, "after_train": False}
    watching.seen.clear()
    proxy.trigger()
    assert watching.seen == {"trigger": True}


def test_weights_are_not_exchanged_for_nothing():
    proxy = EMA(0.5).evaluate(InferenceRunner(flow([[0]]), ScalarStats("cost")))
    assert not proxy.implements("trigger_step")
    assert proxy.implements("trigger_epoch")
