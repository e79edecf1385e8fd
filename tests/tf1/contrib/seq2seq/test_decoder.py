import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.seq2seq.decoder import Decoder, dynamic_decode

LENGTHS = [3, 1, 2]


class Counting(Decoder):
    """Gives the time, and adds one to its state; a sequence has finished after its length."""

    batch_size = 3
    output_size = {"time": tf.TensorShape([]), "wide": 2}
    output_dtype = {"time": tf.int32, "wide": tf.float32}

    def __init__(self, **finalize):
        for name, function in finalize.items():
            setattr(self, name, function)

    def initialize(self, name=None):
        return tf.constant([False] * 3), tf.zeros([3]), (tf.zeros([3, 2]), tf.constant(0.0))

    def step(self, time, inputs, state, name=None):
        finished = time + 1 >= tf.constant(LENGTHS)
        outputs = {"time": tf.fill([3], time + 1), "wide": state[0] + 1}
        return outputs, (state[0] + 1, state[1] + 1), inputs, finished


class Restless(Counting):
    tracks_own_finished = True


@pytest.mark.parametrize("impute", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
def test_steps_are_stacked_until_all_have_finished(session8, impute, time_major):
    outputs, state, lengths = session8.run(
        dynamic_decode(Counting(), output_time_major=time_major, impute_finished=impute, swap_memory=True)
    )
    counts = np.arange(3) < np.array(LENGTHS)[:, np.newaxis] if impute else np.ones((3, 3))
    times = (np.arange(3) + 1) * counts
    assert lengths.tolist() == LENGTHS
    np.testing.assert_array_equal(outputs["time"], times.T if time_major else times)
    wide = np.stack([times, times], axis=2)
    np.testing.assert_array_equal(outputs["wide"], wide.swapaxes(0, 1) if time_major else wide)
    wanted = [[LENGTHS[row] if impute else 3] * 2 for row in range(3)]
    np.testing.assert_array_equal(state[0], wanted)
    assert state[1] == 3


@pytest.mark.parametrize(("limit", "wanted"), [(2, [2, 1, 2]), (0, [0, 0, 0]), (9, [3, 1, 2])])
def test_steps_can_be_limited(session8, limit, wanted):
    outputs, _, lengths = dynamic_decode(Counting(), maximum_iterations=tf.constant(limit), scope="mine")
    assert outputs["wide"].shape.as_list() == [3, None, 2]
    assert outputs["wide"].op.name.startswith("mine/")
    outputs, lengths = session8.run([outputs, lengths])
    assert lengths.tolist() == wanted
    assert outputs["wide"].shape == (3, max(wanted), 2)


def test_a_decoder_may_change_what_came_out(session8):
    decoder = Counting(finalize=lambda outputs, state, lengths: (outputs["time"] * 10, (state, lengths)))
    outputs, (_, given), lengths = session8.run(dynamic_decode(decoder))
    np.testing.assert_array_equal(outputs, [[10, 20, 30]] * 3)
    np.testing.assert_array_equal(given, lengths)


def test_wrong_arguments_are_refused(graph):
    with pytest.raises(WrongTypeError, match="expected decoder to be a Decoder, got 3"):
        dynamic_decode(3)
    with pytest.raises(ConfigError, match="got maximum_iterations of shape .*: expected a scalar"):
        dynamic_decode(Counting(), maximum_iterations=[1])
    with pytest.raises(ConfigError, match="impute_finished=True with Restless, whose sequences change places"):
        dynamic_decode(Restless(), impute_finished=True)


def test_what_a_decoder_lacks_is_named(graph):
    class Bare(Decoder):
        def initialize(self, name=None):
            return None

        def step(self, time, inputs, state, name=None):
            return None

    assert not Bare().tracks_own_finished
    for name in ("batch_size", "output_size", "output_dtype"):
        with pytest.raises(NotImplementedError, match=f"Bare has no {name}"):
            getattr(Bare(), name)
    with pytest.raises(NotImplementedError, match="Bare has no finalize"):
        Bare().finalize(None, None, None)
