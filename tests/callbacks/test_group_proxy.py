import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer, noting
from tpack.callbacks.base import Callback
from tpack.callbacks.group import ProxyCallback
from tpack.errors import WrongTypeError


@noting("before_train", "before_epoch", "trigger_step", "after_epoch", "trigger_epoch", "trigger", "after_train")
class Inner(Callback):
    reads_statistics = True
    _chief_only = False

    def __init__(self):
        self.calls = []

    def _setup_graph(self):
        self.op = tf.no_op(name="op")
        self.fetch = tf.constant(7.0)
        self.calls.append("setup_graph")

    def _before_run(self, ctx):
        self.calls.append("before_run")
        return self.fetch

    def _after_run(self, ctx, values):
        self.calls.append(("after_run", float(values.results)))

    def failure(self):
        return OSError("broken")


def test_proxy_hands_every_hook_on(graph):
    inner = Inner()
    proxy = ProxyCallback(inner)
    FakeTrainer().train([proxy], steps_per_epoch=1, epochs=(1, 1))
    proxy.trigger()
    assert inner.calls == [
        "setup_graph",
        "before_train",
        "before_epoch",
        "before_run",
        ("after_run", 7.0),
        "trigger_step",
        "after_epoch",
        "trigger_epoch",
        "after_train",
        "trigger",
    ]
    assert str(proxy.failure()) == "broken"


def test_proxy_has_the_properties_of_what_it_wraps():
    proxy = ProxyCallback(Inner())
    assert proxy.reads_statistics
    assert not proxy.chief_only
    assert str(proxy) == "ProxyCallback(Inner)"
    assert proxy.implements("failure")
    assert not ProxyCallback(Callback()).implements("failure")
    assert not ProxyCallback(Callback()).implements("before_run")


def test_inner_ops_are_named_as_without_the_proxy(graph):
    inner = Inner()
    with tf.name_scope("outer"):
        ProxyCallback(ProxyCallback(inner)).setup_graph(FakeTrainer())
    assert inner.op.name == "outer/Inner/op"


def test_subclass_of_proxy_implements_what_it_overrides():
    class Acting(ProxyCallback):
        def _trigger_step(self):
            pass

    assert Acting(Callback()).implements("trigger_step")


def test_proxy_of_something_else_is_an_error():
    with pytest.raises(WrongTypeError, match="ProxyCallback got cb=3: expected a Callback"):
        ProxyCallback(3)
