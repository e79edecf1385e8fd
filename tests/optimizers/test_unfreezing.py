"""Parts that are trained later: the weights of separate trainings in turn, and no work before."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizer_workers import Parts, X, adamw, build, train_parts
from tests.helpers.worker_job import run_workers, values_of
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.errors import ConfigError, GraphBuildError
from tpack.optimizers.rerouting import Recompute
from tpack.optimizers.unfreezing import Unfreeze
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)


def oracle(max_epoch=4):
    """Train with an optimizer for each part, of which each epoch runs those that it trains."""
    with tf.Graph().as_default(), tf.Session() as session, tf.variable_scope("", use_resource=True):
        cost = build(tf.constant(X))
        of = {v.op.name: v for v in tf.trainable_variables()}
        steps = [adamw().minimize(cost, var_list=[of[name]]) for name in ("head/W", "body/W", "table")]
        gradients = dict(zip(of, tf.gradients(cost, list(of.values())), strict=True))
        del gradients
        session.run(tf.global_variables_initializer())
        found = {}
        for epoch in range(1, max_epoch + 1):
            for _ in range(2):
                session.run(steps[: 1 + (epoch > 1) + (epoch > 3)])
            found[epoch] = session.run(of)
        return found


@pytest.mark.parametrize(
    "trainer",
    [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(3), lambda: SyncMultiGPUTrainerParameterServer(2)],
    ids=["one", "replicated", "shared"],
)
def test_weights_are_those_of_a_training_of_each_part_in_its_time(log_dir, trainer):
    found, wanted = train_parts(trainer), oracle()
    for epoch, values in found.items():
        for name, value in values.items():
            np.testing.assert_allclose(value, wanted[epoch][name], rtol=2e-4, atol=1e-6, err_msg=f"{name}, {epoch}")
    assert np.array_equal(found[1]["body/W"], np.eye(4))
    assert not np.array_equal(found[2]["body/W"], np.eye(4))
    assert np.array_equal(found[3]["table"], found[1]["table"])
    assert not np.array_equal(found[4]["table"], found[3]["table"])
    assert np.array_equal(found[4]["body/still"], np.ones(4))


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_resumed_run_goes_on(log_dir, first):
    train_parts(callbacks=[ModelSaver()], max_epoch=first)
    resumed = train_parts(callbacks=[ModelSaver()], config=AutoResumeTrainConfig)
    whole = train_parts()
    assert set(resumed) == set(range(first + 1, 5))
    for epoch, values in resumed.items():
        for name, value in values.items():
            np.testing.assert_array_equal(value, whole[epoch][name], err_msg=name)


def test_asynchronous_towers_freeze_too(log_dir):
    found = train_parts(lambda: AsyncMultiGPUTrainer(2))
    assert np.array_equal(found[1]["body/W"], np.eye(4))
    assert not np.array_equal(found[2]["body/W"], np.eye(4))


def test_workers_train_the_same_parts(tmp_path):
    chief, other = values_of(run_workers("tests.helpers.optimizer_workers.unfreeze", 2, tmp_path))
    for epoch, values in chief.items():
        for name, value in values.items():
            np.testing.assert_array_equal(value, other[epoch][name])
            np.testing.assert_allclose(value, oracle()[epoch][name], rtol=2e-4, atol=1e-6, err_msg=name)


def operations_run(model):
    """Return the names of the operations that run in a step of each epoch."""

    class Traced(Callback):
        def __init__(self):
            self.names = {}

        def _after_epoch(self):
            options, found = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
            self.trainer.sess.run(self.trainer.train_op, options=options, run_metadata=found)
            self.names[self.epoch_num] = {
                node.node_name for device in found.step_stats.dev_stats for node in device.node_stats
            }

    traced = Traced()
    train_parts(
        model=model,
        callbacks=[traced],
        session_config=tf.ConfigProto(
            graph_options=tf.GraphOptions(optimizer_options=tf.OptimizerOptions(opt_level=-1))
        ),
    )
    return traced.names


def test_frozen_parts_cost_no_gradient(log_dir):
    names = operations_run(Parts())

    def of(part, epoch):
        return [name for name in names[epoch] if part in name]

    # The gradients of the body, of the table, and what applies them.
    for part, first in (("/body/matmul_", 2), ("update_body/W", 2), ("update_table", 4)):
        for epoch in range(1, 5):
            is_there = bool([name for name in of(part, epoch) if "gradients/" in name or "update_" in name])
            assert is_there == (epoch >= first), (part, epoch)
    assert of("gradients/head/matmul_grad/MatMul_1", 1)
    # Nor the gradient with respect to the head's input.
    assert not [name for name in of("gradients/head/matmul_grad/MatMul", 1) if not name.endswith("MatMul_1")]


def test_it_goes_with_recomputation(log_dir):
    plain = train_parts()
    both = train_parts(
        model=Parts(lambda: Unfreeze(Recompute(adamw(), "body"), {0: "^head/", 1: "^body/W", 3: "^table"}))
    )
    for epoch, values in both.items():
        for name, value in values.items():
            np.testing.assert_array_equal(value, plain[epoch][name], err_msg=name)


def test_what_is_trained_is_told(log_dir, capsys):
    train_parts(max_epoch=1)
    line = "Of 4 variables are trained: 1 from epoch 1 on, 1 from epoch 2 on, 1 from epoch 4 on, 1 never."
    assert line in capsys.readouterr().err


def test_wrong_epochs_are_errors(graph):
    for epochs in ({}, {1: "head"}):
        with pytest.raises(ConfigError, match="expected 0 among them"):
            Unfreeze(adamw(), epochs)
    with pytest.raises(ConfigError, match="regular expression"):
        Unfreeze(adamw(), {0: "head("})
    with pytest.raises(ConfigError, match="an epoch of epochs=-1"):
        Unfreeze(adamw(), {0: "head", -1: "body"})
    w = tf.get_variable("w", [], use_resource=True)
    with pytest.raises(GraphBuildError, match="expected a match of the first in w:0"):
        Unfreeze(adamw(), {0: "head", 1: ".*"}).compute_gradients(w * 2)


def test_its_variables_are_known(graph):
    w, head = (tf.get_variable(name, [], use_resource=True) for name in ("w", "head"))
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        optimizer = Unfreeze(tf.train.MomentumOptimizer(0.1, 0.9), {0: "head", 2: "w"})
    optimizer.apply_gradients(optimizer.compute_gradients(w * head))
    assert {v.op.name for v in optimizer.variables()} == {"w/Momentum", "head/Momentum"}
    assert optimizer.get_slot(w, "momentum").op.name == "w/Momentum"
    assert len(optimizer.callbacks()) == 1
