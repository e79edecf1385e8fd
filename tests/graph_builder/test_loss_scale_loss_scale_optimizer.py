"""Updates with a scaled cost: the same as without where gradients are finite, and none at all where they are not."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.equivalence import OPTIMIZERS
from tests.helpers.optimizers import REPRESENTATIVE
from tests.helpers.sessions import cpu_session
from tpack.errors import GraphBuildError, WrongTypeError
from tpack.graph_builder.loss_scale import DynamicLossScale, LossScaleOptimizer
from tpack.graph_builder.precision import LossScaling
from tpack.tfutils.gradproc import CheckGradient, GlobalNormClip, SummaryGradient
from tpack.tfutils.optimizer import AccumGradOptimizer, PostProcessOptimizer, apply_grad_processors
from tpack.tfutils.optimizer_clone import clone_optimizer

SCALING = LossScaling(initial=1024.0, growth_steps=2)


class Case:
    """Two weights, one with a sparse gradient, and a cost that a factor makes infinite."""

    def __init__(self, make_optimizer, *, scaled):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.factor = tf.placeholder(tf.float32, [])
            dense = tf.get_variable("dense", initializer=[0.5, -1.0, 2.0], use_resource=True)
            table = tf.get_variable("table", initializer=np.ones([4, 2], "float32"), use_resource=True)
            cost = self.factor * (tf.reduce_sum(dense**2) + tf.reduce_sum(tf.gather(table, [1, 1, 3])) ** 2)
            optimizer = make_optimizer()
            loss_scale = DynamicLossScale(SCALING) if scaled else None
            if scaled:
                optimizer = LossScaleOptimizer(optimizer, loss_scale)
            self.step = tf.train.get_or_create_global_step()
            self.grads = optimizer.compute_gradients(cost, [dense, table])
            self.train_op = optimizer.apply_gradients(self.grads, self.step, name="train_op")
            if scaled:
                self.train_op = tf.group(self.train_op, loss_scale.update())
            self.state = {v.op.name: v for v in tf.global_variables() if not v.op.name.startswith("loss_scale")}
            self.loss_scale = loss_scale
            self.summary = tf.summary.merge_all()
            self.session = cpu_session(self.graph, num_cpus=1)
            self.session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])

    def run(self, *factors):
        for factor in factors:
            self.session.run(self.train_op, {self.factor: factor})
        return self.session.run(self.state)

    def scales(self):
        return tuple(self.session.run(self.loss_scale.variables))


@pytest.fixture
def make_case():
    made = []

    def make(*args, **kwargs):
        made.append(Case(*args, **kwargs))
        return made[-1]

    yield make
    for case in made:
        case.session.close()


def assert_same_bits(state, expected):
    assert {name: value.tobytes() for name, value in state.items()} == {n: v.tobytes() for n, v in expected.items()}


WRAPPED = {
    "clipped": lambda: apply_grad_processors(tf.train.AdamOptimizer(0.1), [GlobalNormClip(0.5), CheckGradient()]),
    "post-processed": lambda: PostProcessOptimizer(tf.train.AdamOptimizer(0.1), lambda v: v.assign(v * 0.9)),
    "accumulated": lambda: AccumGradOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), 2),
}


@pytest.mark.parametrize("name", [*REPRESENTATIVE, *WRAPPED])
def test_steps_are_those_without_scaling_and_overflow_changes_nothing(make_case, name):
    make_optimizer = {**OPTIMIZERS, **WRAPPED}[name]
    plain, scaled = make_case(make_optimizer, scaled=False), make_case(make_optimizer, scaled=True)
    expected = plain.run(1.0, 0.5, 2.0)
    assert list(plain.state) == list(scaled.state)
    # 3e38 overflows in the scaled gradients alone, the others in every way.
    state = scaled.run(1.0, np.inf, 0.5, np.nan, 3e38, 2.0)
    assert_same_bits(state, expected)
    assert state["global_step"] == 3
    assert scaled.scales() == (128.0, 1, 3)


def test_skipped_steps_keep_slots_counters_and_the_factor_grows_again(make_case):
    case = make_case(OPTIMIZERS["adam"], scaled=True)
    before = case.run(1.0)
    assert_same_bits(case.run(np.inf, np.inf), before)
    assert case.scales() == (256.0, 0, 2)
    after = case.run(1.0, 1.0)
    assert case.scales() == (512.0, 0, 2)
    assert after["beta1_power"] == before["beta1_power"] * np.float32(0.9) * np.float32(0.9)


def test_gradients_are_scaled_until_they_are_applied(make_case):
    case = make_case(OPTIMIZERS["sgd"], scaled=True)
    gradient = case.session.run(case.grads[0][0], {case.factor: 1.0})
    np.testing.assert_array_equal(gradient, 1024 * 2 * np.float32([0.5, -1, 2]))


def test_summaries_of_gradients_are_empty_in_skipped_steps(make_case):
    case = make_case(
        lambda: apply_grad_processors(tf.train.GradientDescentOptimizer(0.1), [SummaryGradient("dense")]), scaled=True
    )
    tags = []
    for factor in (1.0, np.inf):
        _, summary = case.session.run([case.train_op, case.summary], {case.factor: factor})
        tags.append({value.tag for value in tf.Summary.FromString(summary).value})
    assert tags[0] - tags[1] == {"SummaryGradient/dense-grad"}


def test_clones_share_the_factor_and_not_the_slots(graph):
    loss_scale = DynamicLossScale(SCALING)
    optimizer = LossScaleOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), loss_scale)
    clone = clone_optimizer(optimizer)
    for number, each in enumerate((optimizer, clone)):
        weight = tf.get_variable(f"w{number}", initializer=1.0, use_resource=True)
        each.apply_gradients([*each.compute_gradients(weight**2, [weight]), (None, loss_scale.variables[0])])
        assert each.get_slot(weight, "momentum") is not None
    assert clone.get_slot(tf.trainable_variables()[0], "momentum") is None
    assert loss_scale.update().type == "NoOp"
    assert len([v for v in tf.global_variables() if v.op.name.startswith("loss_scale/")]) == 3


def test_what_is_no_optimizer_is_refused(graph):
    loss_scale = DynamicLossScale(SCALING)
    with pytest.raises(WrongTypeError, match="^LossScaleOptimizer got opt="):
        LossScaleOptimizer(3, loss_scale)
    optimizer = LossScaleOptimizer(OPTIMIZERS["sgd"](), loss_scale)
    with pytest.raises(GraphBuildError, match=r"got no gradient of \['loss_scale/scale'\]"):
        optimizer.apply_gradients([(None, loss_scale.variables[0])])
