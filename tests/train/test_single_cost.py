import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, Recorder, line_input
from tpack.callbacks.base import Callback
from tpack.errors import ConfigError, GraphBuildError
from tpack.graph_builder.base import BuildResult, GraphBuilder, SyncOp
from tpack.graph_builder.towers import SimpleBuilder
from tpack.train.single_cost import BuilderTrainer, SingleCostTrainer
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated


class MyBuilder(GraphBuilder):
    """Delegates, and gives a sync op that counts how often it runs."""

    devices = ("",)

    def build(self, grad_fn, optimizer_fn):
        result = SimpleBuilder().build(grad_fn, optimizer_fn)
        inits, syncs = (tf.get_variable(name, initializer=0, trainable=False) for name in ("inits", "syncs"))
        init_op, sync_op = (tf.assign_add(counter, 1).op for counter in (inits, syncs))
        return BuildResult(result.train_op, result.towers, init_op, SyncOp(sync_op))


def launch(trainer, callbacks=(), max_epoch=3):
    model = Line()
    trainer.setup_graph(model.get_input_signature(), line_input(), model.build_graph, model.get_optimizer)
    trainer.train_with_defaults(
        callbacks=list(callbacks), monitors=[], extra_callbacks=[], steps_per_epoch=5, max_epoch=max_epoch
    )


def launch_with_optimizer(trainer, get_optimizer):
    model = Line()
    with trainer.graph.as_default():
        trainer.setup_graph(model.get_input_signature(), line_input(), model.build_graph, get_optimizer)


def test_a_builder_of_the_users_own_is_trained_on():
    recorder = Recorder()
    launch(BuilderTrainer(MyBuilder()), [recorder])
    assert recorder.weights["inits"] == 1
    assert recorder.weights["syncs"] == 3
    assert recorder.weights["w"] != 0


def test_copies_follow_what_a_callback_does_to_the_main_tower():
    class Meddle(Callback):
        def __init__(self):
            self.seen = []

        def _setup_graph(self):
            self.copies = [tower.get_variable("w") for tower in self.trainer.towers]

        def _before_run(self, ctx):
            if self.local_step == 0:
                self.seen.append(tuple(self.trainer.sess.run(self.copies)))

        def _trigger_epoch(self):
            self.copies[0].load(7.0, self.trainer.sess)

    meddle = Meddle()
    launch(SyncMultiGPUTrainerReplicated(3), [meddle])
    assert meddle.seen == [(0.0, 0.0, 0.0), (7.0, 7.0, 7.0), (7.0, 7.0, 7.0)]


def test_the_optimizer_function_is_called_once():
    calls = []

    def get_optimizer():
        calls.append(1)
        return tf.train.GradientDescentOptimizer(0.1)

    model = Line()
    trainer = SyncMultiGPUTrainerReplicated(3)
    trainer.setup_graph(model.get_input_signature(), line_input(), model.build_graph, get_optimizer)
    assert calls == [1]
    assert len(trainer.towers) == 3
    assert trainer.devices == ("/device:CPU:0", "/device:CPU:1", "/device:CPU:2")


def test_gradient_options_are_class_attributes():
    class Gated(SimpleTrainer):
        GATE_GRADIENTS = True
        COLOCATE_GRADIENTS_WITH_OPS = False

    recorder = Recorder()
    launch(Gated(), [recorder])
    ungated = Recorder()
    launch(SimpleTrainer(), [ungated])
    np.testing.assert_allclose(recorder.weights["w"], ungated.weights["w"])


def test_the_cost_is_scaled_in_float16_and_computed_in_float32():
    class Costs(Callback):
        def __init__(self):
            self.seen = []

        def _before_run(self, ctx):
            (self.cost,) = self.get_tensors_maybe_in_tower(["cost_in_float32"])
            return tf.train.SessionRunArgs([self.cost, "cost:0"])

        def _after_run(self, ctx, values):
            self.seen.append(values.results)

    costs, recorder = Costs(), Recorder()
    trainer = BuilderTrainer(SimpleBuilder(), precision="float16")
    launch(trainer, [costs, recorder])
    assert {(wide.dtype.name, narrow.dtype.name) for wide, narrow in costs.seen} == {("float32", "float16")}
    assert costs.seen[-1][0] < 0.1 * costs.seen[0][0]
    assert set(recorder.weights) - {"w", "b", "learning_rate", "global_step"} == {
        "loss_scale/scale",
        "loss_scale/finite_steps",
        "loss_scale/skipped_steps",
    }
    # The first step's gradients overflow: the sum of the errors is above 2 there, and the largest float16 is 65504.
    assert recorder.weights["loss_scale/scale"] == 2**14
    assert recorder.weights["loss_scale/skipped_steps"] == 1
    assert recorder.weights["loss_scale/finite_steps"] == 14
    tower = trainer.towers[0]
    assert tower.get_tensor("x").dtype == tf.float32


def test_wrong_arguments_are_errors():
    with pytest.raises(ConfigError, match="builder=3: expected a GraphBuilder"):
        BuilderTrainer(3)
    trainer = SimpleTrainer()
    with pytest.raises(ConfigError, match="input=4: expected an InputSource"):
        trainer.setup_graph([], 4, lambda: None, lambda: None)
    with pytest.raises(ConfigError, match="TowerFunc got tower_fn=5: expected a function"):
        BuilderTrainer(SimpleBuilder(), precision="float16").setup_graph([], line_input(), 5, lambda: None)
    with pytest.raises(ConfigError, match="get_opt_fn=.*: expected a function that returns the optimizer"):
        trainer.setup_graph([], line_input(), lambda: None, tf.train.GradientDescentOptimizer(0.1))
    with pytest.raises(GraphBuildError, match="expected a tf.compat.v1.train.Optimizer"):
        launch_with_optimizer(BuilderTrainer(SimpleBuilder(), precision="float16"), lambda: 3)
    assert trainer.graph.get_operations() == []
    assert isinstance(trainer, SingleCostTrainer)
