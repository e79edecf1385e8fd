import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, Recorder, line_input
from tpack.callbacks.param_setters import ScheduledHyperParamSetter
from tpack.optimizers.weight_decay import Lion
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SyncMultiGPUTrainerReplicated


class ByLion(Line):
    """Fits a line by steps whose length is the rate."""

    def optimizer(self):
        return Lion(tf.get_variable("learning_rate", initializer=7.0, trainable=False))


def test_a_setter_of_the_rate_is_followed_in_all_towers(log_dir):
    recorder = Recorder()
    config = TrainConfig(
        model=ByLion(),
        data=line_input(),
        callbacks=[recorder, ScheduledHyperParamSetter("learning_rate", [(0, 0.25), (1, 0.125)])],
        steps_per_epoch=2,
        max_epoch=2,
    )
    launch_train_with_config(config, SyncMultiGPUTrainerReplicated(2))
    assert recorder.weights["w"] == recorder.weights["b"] == 2 * 0.25 + 2 * 0.125
