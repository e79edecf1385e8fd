import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.inference.inferencers import Inferencer
from tpack.errors import CallbackError


class Fixed(Inferencer):
    def __init__(self, statistics):
        self.statistics, self.calls = statistics, []

    def _before_inference(self):
        self.calls.append("before")

    def _get_fetches(self):
        return ["cost", "scope/wrong:1"]

    def _on_fetches(self, results):
        self.calls.append(results)

    def _after_inference(self):
        return self.statistics


def after_inference(graph, statistics):
    inferencer, trainer = Fixed(statistics), FakeTrainer()
    trainer.setup([inferencer])
    trainer.sess.close()
    inferencer.before_inference()
    inferencer.on_fetches([1, 2])
    inferencer.after_inference()
    assert inferencer.calls == ["before", [1, 2]]
    return trainer


def test_statistics_go_to_the_monitors(graph):
    trainer = after_inference(graph, {"a": 1.0, "b": 2})
    assert [(name, val) for name, val, _, _ in trainer.recorder.scalars] == [("a", 1.0), ("b", 2)]


def test_no_statistics_are_allowed(graph):
    assert after_inference(graph, None).recorder.scalars == []


def test_fetches_have_their_output_index():
    assert Fixed(None).get_fetches() == ["cost:0", "scope/wrong:1"]


def test_something_else_than_a_dict_is_an_error(graph):
    with pytest.raises(CallbackError, match="returns a dict of numbers or None, got 3"):
        after_inference(graph, 3)


def test_methods_must_be_overridden():
    with pytest.raises(NotImplementedError, match="Inferencer must override _get_fetches"):
        Inferencer().get_fetches()
    with pytest.raises(NotImplementedError, match="Inferencer must override _on_fetches"):
        Inferencer().on_fetches([])
    assert Inferencer()._after_inference() is None
