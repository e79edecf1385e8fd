from tests.helpers.toy_training import Line, Recorder, line_input
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainer import adding_callback
from tpack.train.trainers import SimpleTrainer


def test_trainings_inside_of_the_block_get_the_callback(graph):
    made = []

    def make():
        made.append(Recorder())
        return made[-1]

    def train():
        config = TrainConfig(model=Line(), data=line_input(), callbacks=[], monitors=[], steps_per_epoch=2, max_epoch=1)
        launch_train_with_config(config, SimpleTrainer())

    with adding_callback(make):
        train()
    assert [call[0] for call in made[0].calls].count("trigger_step") == 2
    assert len(made) == 1
    train()
    assert len(made) == 1
