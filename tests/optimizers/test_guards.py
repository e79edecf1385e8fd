"""Steps of a spiking cost are skipped in all towers, or undone; norms of layers are those of numpy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizer_workers import Bumps, bumps
from tests.helpers.sessions import cpu_session
from tests.helpers.worker_job import run_workers, values_of
from tpack.callbacks.base import Callback
from tpack.callbacks.run_op import RunUpdateOps
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import ConfigError, GraphBuildError, NumericsError
from tpack.models.batch_norm import BatchNorm
from tpack.optimizers.guards import OptimizerMonitor, SpikeGuard
from tpack.tfutils.gradproc import GlobalNormClip
from tpack.tfutils.optimizer import apply_grad_processors
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated

TRAINERS = {
    "one": SimpleTrainer,
    "replicated": lambda: SyncMultiGPUTrainerReplicated(3),
    "shared": lambda: SyncMultiGPUTrainerParameterServer(2),
}


def momentum():
    return tf.train.MomentumOptimizer(0.1, 0.5)


def reference(costs, deviations=4.0, smoothing=0.9, warmup=5):
    """Return which costs are spikes, in numpy."""
    mean = square = count = 0
    found = []
    for cost in costs:
        share = 1 - smoothing ** max(count, 1)
        limit = mean / share + deviations * np.sqrt(max(square / share - (mean / share) ** 2, 0))
        is_spike = not np.isfinite(cost) or (count >= warmup and cost > limit)
        found.append(bool(is_spike))
        if not is_spike:
            mean, square = smoothing * mean + (1 - smoothing) * cost, smoothing * square + (1 - smoothing) * cost**2
            count += 1
    return found


def guard(**options):
    def wrap(opt):
        return SpikeGuard(opt, 4.0, warmup_steps=5, smoothing=0.9, **options)

    return wrap


@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=TRAINERS)
@pytest.mark.parametrize("optimizer", [momentum, lambda: tf.train.AdamOptimizer(0.1)], ids=["momentum", "adam"])
def test_steps_of_spikes_change_nothing(log_dir, trainer, optimizer):
    # A cost is the noise of its step plus what the weight has to do with it.
    noise = [1.0, 1.2, 0.9, 1.1, 1.0, 1.05, 30.0, 0.95, 1.1, np.inf, 1.0, 80.0, 1.1]
    found = bumps(trainer, Bumps(noise, optimizer, guard()))
    wanted = reference(found.costs)
    assert wanted == [cost in (30.0, np.inf, 80.0) for cost in noise]
    changes = np.diff([0.0, *found.weights]) == 0
    assert changes.tolist() == wanted
    assert found.skipped == 3
    # The others are those of a training without these steps.
    rest = bumps(SimpleTrainer, Bumps([each for each in noise if each < 2], optimizer))
    kept = [weight for weight, is_spike in zip(found.weights, wanted, strict=True) if not is_spike]
    np.testing.assert_allclose(kept, rest.weights, rtol=1e-5)


class Normalized(Bumps):
    """Has statistics of the noise, too."""

    def build_graph(self, noise):
        rows = tf.stack([noise, 3 * noise])[:, tf.newaxis]
        return super().build_graph(noise) + 0.0 * tf.reduce_sum(BatchNorm("bn", rows))


class Statistics(Callback):
    """Reads the averages of all towers at the end."""

    def _after_train(self):
        averages = [each for each in tf.global_variables() if each.op.name.endswith("EMA")]
        self.values = np.ravel(self.trainer.sess.run(averages))


@pytest.mark.parametrize("steps_per_call", [1, 4])
@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=TRAINERS)
def test_statistics_have_no_trace_of_a_spike(log_dir, trainer, steps_per_call):
    noise = [1.0, 1.2, 0.9, 1.1, 1.0, 1.05, 1e6, 0.95, 1.1, 1e7, 1e8, 1.2]
    options = {"steps_per_call": steps_per_call}
    with_spikes, without = Statistics(), Statistics()
    found = bumps(trainer, Normalized(noise, momentum, guard()), callbacks=[RunUpdateOps(), with_spikes], **options)
    assert found.skipped == 3
    bumps(
        trainer,
        Normalized([each for each in noise if each < 2], momentum),
        callbacks=[RunUpdateOps(), without],
        **options,
    )
    assert len(without.values) >= 2
    np.testing.assert_allclose(with_spikes.values, without.values, rtol=1e-6)


NOISE = [1.0, 1.2, 0.9, 1.1, 1.0, 1.05, 1.0, 1.1, 50.0, 1.0, 1.1]


@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=TRAINERS)
def test_a_spike_goes_back_to_the_last_checkpoint(log_dir, trainer):
    saver = PeriodicTrigger(ModelSaver(), every_k_steps=6)
    model = Bumps(NOISE, momentum, guard(on_spike="rollback"))
    found = bumps(trainer, model, callbacks=[saver])
    # After the spike in step 9, the weight is that after step 6, in all towers.
    assert found.weights[8] == found.weights[5]
    assert found.weights[9] != found.weights[7]
    assert found.global_steps == list(range(1, 12))
    assert found.spread < 1e-6


def test_without_a_checkpoint_the_step_alone_is_skipped(log_dir):
    model = Bumps(NOISE, momentum, guard(on_spike="rollback"))
    found = bumps(SimpleTrainer, model)
    assert found.weights[8] == found.weights[7]


def test_workers_skip_and_go_back_together(tmp_path):
    outcomes = values_of(run_workers("tests.helpers.optimizer_workers.spikes", 2, tmp_path))
    for chief, other in zip(*outcomes, strict=True):
        assert chief == other
        assert len(set(chief)) > 5
    skipping, returning = outcomes[0]
    assert skipping[8] == skipping[7] != skipping[9]
    assert returning[8] == returning[5] != returning[7]


def test_a_resumed_run_knows_the_costs_before(log_dir):
    def train(config=None, epochs=2):
        options = {} if config is None else {"config": config}
        return bumps(
            SimpleTrainer,
            Bumps(NOISE, lambda: tf.train.AdamOptimizer(0.1), guard()),
            callbacks=[ModelSaver()],
            steps_per_epoch=7,
            max_epoch=epochs,
            **options,
        )

    train(epochs=1)
    assert train(AutoResumeTrainConfig).skipped == 1


@pytest.mark.parametrize("on_spike", ["skip", "rollback"])
def test_gradients_of_several_steps_are_skipped_together(log_dir, on_spike):
    """Two steps are applied as one, of the mean of their costs; asking for the state applies nothing."""
    noise = [1.0, 1.2, 0.9, 1.1, 1.0, 1.05, 1.0, 1.1, 0.9, 1.0, 1.1, 1.0, 50.0, 1.0, 1.1, 1.0]

    def trainer():
        return SyncMultiGPUTrainerReplicated(2, accumulate=2)

    saver = PeriodicTrigger(ModelSaver(), every_k_steps=10)
    found = bumps(trainer, Bumps(noise, momentum, guard(on_spike=on_spike)), callbacks=[saver])
    plain = bumps(trainer, Bumps([1.0] * 16, momentum))
    assert found.weights[:12] == plain.weights[:12]
    before = {"skip": 11, "rollback": 9}[on_spike]
    assert found.weights[13] == found.weights[before]
    assert found.weights[15] != found.weights[13]


def test_norms_of_gradients_of_several_steps(log_dir):
    model = Bumps([1.0] * 12, lambda: tf.train.GradientDescentOptimizer(0.5), lambda opt: OptimizerMonitor(opt, 2))
    found = bumps(lambda: SyncMultiGPUTrainerReplicated(2, accumulate=2), model)
    rows = [row for row in found.history if "norms/all/update" in row]
    # Every second of the applied ones, of which each is that of two steps.
    assert [row["global_step"] for row in rows] == [4, 8, 12]
    for row in rows:
        assert row["norms/w/update"] == pytest.approx(0.5 * row["norms/w/gradient"], rel=1e-5)


def test_many_in_a_row_end_training(log_dir):
    noise = [1.0, 1.2, 0.9, 1.1, 1.0, 1.05, 1.0, 50.0, 60.0, 70.0, 80.0]
    model = Bumps(noise, lambda: tf.train.AdamOptimizer(0.1), guard(most_in_a_row=3))
    with pytest.raises(NumericsError, match="spiked in 3 steps in a row, up to step 10"):
        bumps(SimpleTrainer, model)


def test_gradient_processors_go_inside(log_dir):
    def wrap(opt):
        return guard()(apply_grad_processors(opt, [GlobalNormClip(0.01)]))

    found = bumps(SimpleTrainer, Bumps(NOISE, lambda: tf.train.GradientDescentOptimizer(1.0), wrap))
    # Each step but that of the spike is as long as the limit.
    np.testing.assert_allclose(np.abs(np.diff([0.0, *found.weights])), 0.01 * (np.array(NOISE) < 2), atol=1e-6)


def test_what_it_cannot_do_is_an_error(graph):
    w = tf.get_variable("w", [], use_resource=True)
    with pytest.raises(GraphBuildError, match="got no cost among the gradients"):
        guard()(tf.train.AdamOptimizer(0.1)).apply_gradients([(tf.ones([]), w)])
    with pytest.raises(ConfigError, match="on_spike='stop': expected one of 'skip', 'rollback'"):
        SpikeGuard(tf.train.AdamOptimizer(0.1), on_spike="stop")


class Norms(Callback):
    """Keeps the reported norms, and computes them from the variables and gradients of each step."""

    def __init__(self):
        self.wanted = []

    def _setup_graph(self):
        self.variables = tf.trainable_variables()

    def _before_train(self):
        self.values = self.trainer.sess.run(self.variables)

    def _trigger_step(self):
        before, self.values = self.values, self.trainer.sess.run(self.variables)
        changes = [new - old for new, old in zip(self.values, before, strict=True)]
        self.wanted.append([np.sqrt(sum(np.sum(v**2) for v in each)) for each in (before, changes)])


@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=TRAINERS)
@pytest.mark.parametrize("steps_per_call", [1, 3])
def test_norms_are_reported_by_layer(log_dir, trainer, steps_per_call):
    norms = Norms()
    model = Bumps([1.0] * 6, lambda: tf.train.GradientDescentOptimizer(0.5), lambda opt: OptimizerMonitor(opt, 2))
    callbacks = [norms] if steps_per_call == 1 else []
    found = bumps(trainer, model, callbacks=callbacks, steps_per_call=steps_per_call)
    rows = found.history
    at = [row["global_step"] for row in rows if "norms/all/update" in row]
    assert at == [2, 4, 6]
    last = rows[-1] if "norms/all/update" in rows[-1] else next(r for r in rows[::-1] if "norms/all/update" in r)
    assert set(last) >= {f"norms/{layer}/{kind}" for layer in ("w", "all") for kind in ("gradient", "weight", "update")}
    # Gradient descent moves by the rate times the gradient.
    assert last["norms/w/update"] == pytest.approx(0.5 * last["norms/w/gradient"], rel=1e-5)
    if norms.wanted:
        weight, update = norms.wanted[last["global_step"] - 1]
        assert last["norms/all/weight"] == pytest.approx(weight, rel=1e-5)
        assert last["norms/all/update"] == pytest.approx(update, rel=1e-5)


def test_rows_of_a_sparse_gradient_are_added():
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        step = tf.train.get_or_create_global_step()
        table = tf.get_variable("emb/table", initializer=np.ones([4, 2], "float32"), use_resource=True)
        bias = tf.get_variable("emb/b", initializer=np.full(3, 2.0, "float32"), use_resource=True)
        cost = tf.reduce_sum(tf.gather(table, [1, 1, 3])) + tf.reduce_sum(bias) * 3
        optimizer = OptimizerMonitor(tf.train.GradientDescentOptimizer(0.1), 1)
        train_op = optimizer.minimize(cost, global_step=step)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(train_op)
        found = session.run(next(v for v in tf.local_variables() if v.op.name == "optimizer_norms"))
    wanted = [np.sqrt(2 * 4 + 2 * 1 + 27), np.sqrt(8 + 12), 0.1 * np.sqrt(37)]
    np.testing.assert_allclose(found, [wanted, wanted], rtol=1e-5)
