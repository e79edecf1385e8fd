import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.step.fetch_plan import FetchPlan, RememberedStep, is_constant, timeout_alone
from tpack.step.hooked_session import HookedSession


class Asking(Callback):
    """Returns the same request at each step and keeps what it is told."""

    def __init__(self, request):
        self.request = request
        self.told = []

    def _before_run(self, ctx):
        return self.request

    def _after_run(self, ctx, values):
        self.told.append(values.results)


class Listening(Callback):
    """Asks for nothing and is told of each run."""

    def __init__(self):
        self.told = []

    def _after_run(self, ctx, values):
        self.told.append(values.results)


def test_what_may_change_is_not_constant(graph):
    tensor, op = tf.constant(1), tf.no_op()
    arguments = tf.train.SessionRunArgs
    for constant in (None, tensor, op, (tensor, op), arguments(tensor), arguments((tensor,))):
        assert is_constant(constant)
    for changing in ([tensor], {"a": tensor}, "Const:0", arguments([tensor]), arguments(tensor, {tensor: 1})):
        assert not is_constant(changing)
    assert not is_constant(arguments(tensor, options=tf.RunOptions()))
    assert is_constant(arguments(tensor, options=tf.RunOptions(timeout_in_ms=5)))


def test_a_timeout_stands_alone_or_counts_as_none():
    assert timeout_alone(None) == 0
    assert timeout_alone(tf.RunOptions(timeout_in_ms=5)) == 5
    assert timeout_alone(tf.RunOptions(timeout_in_ms=5, trace_level=tf.RunOptions.FULL_TRACE)) == 0


def test_everybody_is_told_their_own_values_at_each_repetition(session8):
    one, two, op = tf.constant(1), tf.constant(2), tf.no_op()
    requests = [None, two, op, (one, two), tf.train.SessionRunArgs(two)]
    asking = [Asking(request) for request in requests]
    listening = Listening()
    hooked = HookedSession(session8, [*asking, listening])
    for _ in range(3):
        assert hooked.run(one) == 1
    assert [callback.told for callback in asking] == [[None] * 3, [2] * 3, [None] * 3, [(1, 2)] * 3, [2] * 3]
    assert listening.told == [None] * 3


def test_only_constant_requests_are_remembered(session8):
    one = tf.constant(1)
    for request, remembered in ((one, 1), ([one], 0)):
        hooked = HookedSession(session8, [Asking(request)])
        for _ in range(3):
            hooked.run(one)
        assert len(hooked._steps) == remembered


def test_a_step_keeps_what_it_is_known_by_alive(session8):
    request = (tf.constant(1),)
    step = RememberedStep(FetchPlan(session8, [request]), [], None, [request])
    assert step._kept_alive[1][0] is request
