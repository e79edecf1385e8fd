import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError, WrongTypeError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.train.config import TrainConfig
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated
from tpack.tuning import batch_size as batch_size_module
from tpack.tuning.batch_size import find_batch_size

X = np.ones([4096, 2], np.float32)


class Limited(ModelDesc):
    """A model whose towers have memory for so many examples: beyond it an operation finds none."""

    def __init__(self, limit, error=MemoryError):
        self._limit, self._error = limit, error

    def inputs(self):
        return [tf.TensorSpec([None, 2], tf.float32, "x")]

    def build_graph(self, x):
        def check(batch):
            if len(batch) > self._limit:
                raise self._error(f"no memory for {len(batch)} examples")
            return batch

        checked = tf.reshape(tf.py_func(check, [x], tf.float32), [-1, 2])
        return tf.reduce_mean(tf.matmul(checked, tf.get_variable("w", [2, 1])))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


def maker(limit, trainer=SimpleTrainer, **arguments):
    def make(batch_size):
        return TrainConfig(model=Limited(limit, **arguments), dataflow=(X,), batch_size=batch_size), trainer()

    return make


def test_batches_double_and_are_then_looked_for_in_between():
    with captured_log() as lines:
        found = find_batch_size(maker(3, lambda: SyncMultiGPUTrainerReplicated(2)), smallest=2, num_steps=1)
    assert list(found.tried) == [2, 4, 8, 6]
    assert (found.batch_size, found.too_large) == (6, 8)
    # Each of the two towers has a half.
    assert "no memory for 4 examples" in found.tried[8]
    assert any("batch_size=8 is too large: " in line for line in lines)
    assert any("Batches of up to 6 fit, 8 does not; tried were 2, 4, 8 (too large), 6." in line for line in lines)


class Sizes:
    """A search whose trainings take no time."""

    def __init__(self, make, num_steps, total):
        self.limit, self.tried = make(0), {}

    def has_room_for(self, size):
        assert size not in self.tried
        self.tried[size] = "" if size <= self.limit else "no memory"
        return size <= self.limit

    def result(self):
        return self.tried


@pytest.mark.parametrize("smallest", [1, 3, 8])
@pytest.mark.parametrize("limit", [8, 9, 24, 100, 1000, 10_000])
@pytest.mark.parametrize("largest", [8, 9, 64, 100, 3000])
@pytest.mark.parametrize("precision", [0.0, 0.05, 1.0])
def test_what_is_found_is_as_near_to_the_limit_as_wanted(monkeypatch, smallest, limit, largest, precision):
    monkeypatch.setattr(batch_size_module, "_Search", Sizes)
    tried = find_batch_size(lambda size: limit, smallest=smallest, largest=largest, precision=precision)
    fits = max(size for size in tried if not tried[size])
    beyond = min([size for size in tried if tried[size]], default=largest // smallest * smallest + smallest)
    assert all(size % smallest == 0 and size <= largest for size in tried)
    assert fits <= limit
    assert beyond - fits <= max(smallest, precision * fits)
    assert len(tried) <= 24


def test_no_limit_but_that_of_the_argument():
    found = find_batch_size(maker(10**9), smallest=2, largest=5, num_steps=1, precision=0.0)
    assert (found.batch_size, found.too_large, list(found.tried)) == (4, None, [2, 4])


def test_what_cannot_be_is_refused_and_other_errors_are_raised():
    for wrong, message in [
        ({"smallest": 0}, "smallest"),
        ({"smallest": 8, "largest": 4}, "largest"),
        ({"num_steps": 0}, "num_steps"),
        ({"precision": -1.0}, "precision"),
    ]:
        with pytest.raises(ConfigError, match=message):
            find_batch_size(maker(10), **wrong)
    with pytest.raises(ConfigError, match="got smallest=4, which does not fit: .*no memory for 4 examples"):
        find_batch_size(maker(3), smallest=4)
    with pytest.raises(Exception, match="no memory for 2 examples"):
        find_batch_size(maker(1, error=ValueError), smallest=2)
    with pytest.raises(WrongTypeError, match="got None from make: expected a TrainConfig and a trainer"):
        find_batch_size(lambda size: None)


def test_errors_of_libraries_below_count_by_their_words():
    internal = tf.errors.InternalError(None, None, "CUDA_ERROR_OUT_OF_MEMORY: out of memory\nmore")
    assert batch_size_module._lack_of_memory(internal) == "CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    assert batch_size_module._lack_of_memory(tf.errors.InternalError(None, None, "other")) is None
    assert batch_size_module._lack_of_memory(MemoryError()) == "MemoryError"


def test_micro_batches_divide_the_step_that_is_applied():
    made = []

    def make(batch_size, accumulate):
        made.append((batch_size, accumulate))
        config = TrainConfig(model=Limited(5), dataflow=(X,), batch_size=batch_size)
        return config, SyncMultiGPUTrainerReplicated(2, accumulate=accumulate)

    with captured_log() as lines:
        found = find_batch_size(make, smallest=2, total=24, num_steps=1)
    # Sizes are 2, 4, 6, 8, 12 and 24; each of the two towers has room for 5.
    assert made == [(2, 12), (4, 6), (8, 3), (24, 1), (12, 2)]
    assert (found.batch_size, found.too_large, found.accumulate) == (8, 12, 3)
    assert any("3 micro-batches of 8 are 24 examples." in line for line in lines)


def test_a_step_is_of_whole_smallest_batches():
    with pytest.raises(ConfigError, match="total=25: expected a multiple of smallest=2"):
        find_batch_size(lambda size, accumulate: None, smallest=2, total=25)
