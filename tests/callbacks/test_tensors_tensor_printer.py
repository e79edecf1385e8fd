import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.tensors import TensorPrinter


def test_values_are_logged_after_each_step(graph):
    with captured_log() as lines:
        tf.constant([1, 2], name="pair")
        FakeTrainer().train([TensorPrinter(["global_step", "pair:0"])], epochs=(1, 1))
    assert lines == ["global_step: 0", "pair:0: [1 2]", "global_step: 1", "pair:0: [1 2]"]
