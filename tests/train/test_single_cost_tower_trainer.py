import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, Recorder, line_input
from tpack.callbacks.base import Callback
from tpack.errors import ConfigError, TowerError
from tpack.tower.context import TowerContext
from tpack.tower.tower_func import TowerFunc
from tpack.train.single_cost import TowerTrainer
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated


class Predicting(Callback):
    """Predicts before and after training."""

    def __init__(self, device=0):
        self.device = device
        self.predictions = []

    def _setup_graph(self):
        self.predictor = self.trainer.get_predictor(["x"], ["prediction"], self.device)

    def _before_train(self):
        self._predict()

    def _trigger(self):
        self._predict()

    def _predict(self):
        [prediction] = self.predictor(np.array([0.0, 1.0], "float32"))
        self.predictions.append(prediction)


def launch(trainer, callbacks, max_epoch=20):
    model = Line()
    trainer.setup_graph(model.get_input_signature(), line_input(), model.build_graph, model.get_optimizer)
    trainer.train_with_defaults(
        callbacks=callbacks, monitors=[], extra_callbacks=[], steps_per_epoch=20, max_epoch=max_epoch
    )


@pytest.mark.parametrize("make_trainer", [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(2)])
def test_a_predictor_uses_the_current_weights(make_trainer):
    predicting = Predicting()
    launch(make_trainer(), [predicting])
    np.testing.assert_array_equal(predicting.predictions[0], [0, 0])
    np.testing.assert_allclose(predicting.predictions[-1], [1, 3], rtol=1e-3)


def test_predictors_of_one_device_share_a_tower():
    trainer = SimpleTrainer()
    launch(trainer, [Predicting(), Predicting(), Predicting(-1)], max_epoch=1)
    assert [tower.name for tower in trainer.towers.inference()] == ["tower-pred-0", "tower-pred-cpu"]
    assert [spec.name for spec in trainer.input_signature] == ["x", "y"]


def test_a_predictor_that_comes_too_late_is_an_error():
    class Late(Callback):
        def _before_train(self):
            self.trainer.get_predictor(["x"], ["prediction"])

    with pytest.raises(TowerError, match="after training began"):
        launch(SimpleTrainer(), [Late()])


def test_a_tensor_that_is_not_there_lists_near_names():
    class Misspelt(Callback):
        def _setup_graph(self):
            self.trainer.get_predictor(["x"], ["predicton"])

    with pytest.raises(TowerError, match="no tensor 'predicton' .*near names: prediction"):
        launch(SimpleTrainer(), [Misspelt()])


def test_a_trainer_without_a_tower_function_says_so():
    trainer = TowerTrainer()
    with pytest.raises(TowerError, match="has no tower function yet"):
        assert trainer.towers
    with pytest.raises(ConfigError, match="tower_func=3: expected a TowerFunc"):
        trainer.tower_func = 3


def test_a_trainer_of_the_users_own_builds_in_its_init():
    class TwoCosts(TowerTrainer):
        """Two networks with opposite costs, each with an optimizer of its own, in turn."""

        def __init__(self, input, model):
            super().__init__()
            self.register_callback(input.setup(model.get_input_signature()))
            self.tower_func = TowerFunc(model.build_graph, model.get_input_signature())
            with TowerContext("", is_training=True):
                cost = self.tower_func(*input.get_input_tensors())
            w, b = tf.trainable_variables()
            self.first = tf.train.GradientDescentOptimizer(0.1).minimize(cost, var_list=[w])
            self.second = tf.train.GradientDescentOptimizer(0.1).minimize(cost, var_list=[b])

        def run_step(self):
            self.hooked_sess.run(self.first if self.global_step % 2 else self.second)

    recorder = Recorder()
    trainer = TwoCosts(line_input(), Line())
    trainer.train_with_defaults(callbacks=[recorder], monitors=[], extra_callbacks=[], steps_per_epoch=200, max_epoch=1)
    np.testing.assert_allclose([recorder.weights["w"], recorder.weights["b"]], [2, 1], rtol=1e-2)
    assert recorder.weights["global_step"] == 200


class Weights(Callback):
    """Keeps the weights of each epoch."""

    def __init__(self):
        self.found = []

    def _trigger_epoch(self):
        self.found.append(self.trainer.get_weights())


@pytest.mark.parametrize("make_trainer", [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(2)])
def test_weights_and_predictors_are_there_after_training(make_trainer):
    trainer, weights = make_trainer(), Weights()
    with pytest.raises(ConfigError, match="get_weights was called before training"):
        trainer.get_weights()
    launch(trainer, [weights, Predicting()])
    assert trainer.get_weights() == weights.found[-1]
    assert trainer.get_weights().keys() == {"w", "b"}
    assert weights.found[0] != weights.found[-1]
    for device in (0, 1, -1):
        predictor = trainer.get_predictor(["x"], ["prediction"], device)
        np.testing.assert_allclose(predictor(np.array([0.0, 1.0], "float32"))[0], [1, 3], rtol=1e-3)
        predictor.sess.close()


def test_weights_of_a_training_that_failed_or_kept_none_are_an_error():
    class Failing(Callback):
        def _trigger_epoch(self):
            raise ZeroDivisionError

    failed = SimpleTrainer()
    with pytest.raises(ZeroDivisionError):
        launch(failed, [Failing()])
    with tf.Graph().as_default():
        without = SimpleTrainer()
        without.keeps_weights = False
        launch(without, [], max_epoch=1)
    for trainer in (failed, without):
        with pytest.raises(ConfigError, match="after a training that failed or kept no weights"):
            trainer.get_weights()
        with pytest.raises(ConfigError, match="after a training that failed or kept no weights"):
            trainer.get_predictor(["x"], ["prediction"])
