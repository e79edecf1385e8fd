import keras
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.keras_models import LOSS, ROWS, X, Y, assert_close, build, made, shares
from tpack.compat.runtime import eager_mode
from tpack.errors import ConfigError
from tpack.keras.model import KerasModel
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated


@pytest.mark.parametrize(
    "make", [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(4), lambda: SyncMultiGPUTrainerParameterServer(3)]
)
def test_any_trainer_does_and_tells_of_it(make, tmp_path):
    with tf.Graph().as_default():
        trainer = make()
        num_towers = len(trainer.devices)
        model = KerasModel(build, optimizer="adam", loss=LOSS, metrics=["accuracy"])
        config = TrainConfig(model=model, dataflow=shares(num_towers), steps_per_epoch=1, max_epoch=1, monitors=[])
        launch_train_with_config(config, trainer)
    # The first step's statistics are those of the model before it has learned anything, on all of its examples.
    with eager_mode():
        before = made()
        before.compile("sgd", LOSS, metrics=["accuracy"])
        wanted = before.train_on_batch(X[:ROWS], Y[:ROWS], return_dict=True)
    assert trainer.monitors.get_latest("total_loss") == pytest.approx(float(wanted["loss"]), rel=1e-5)
    assert trainer.monitors.get_latest("accuracy") == pytest.approx(float(wanted["accuracy"]), rel=1e-5)
    assert list(trainer.statistics) == ["total_loss", "accuracy"]
    trainer.export_keras(tmp_path / "model.keras")
    with eager_mode():
        assert_close(keras.models.load_model(tmp_path / "model.keras").get_weights(), model.trained_weights())


def test_what_is_no_model_or_was_not_trained_is_refused():
    with pytest.raises(ConfigError, match="got optimizer=None or loss=None"):
        KerasModel(made())
    with pytest.raises(ConfigError, match="is for trainers of a KerasModel, and this one has none yet"):
        SimpleTrainer().export_keras("model.keras")
    with pytest.raises(ConfigError, match="was not trained"):
        KerasModel(made(), optimizer="sgd", loss=LOSS).export_keras("model.keras")
