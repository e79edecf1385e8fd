"""All optimizers of ``tf.contrib.opt``: their formulas in numpy, dense and sparse, and K towers as one.

``tests/trials/tensorflow_1_seq2seq.py`` compares them with those of TensorFlow 1.15 itself.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.opt as opt
from tests.helpers.equivalence import STEPS, batches, build_cost
from tests.helpers.sessions import cpu_session
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import SimpleBuilder
from tpack.tower.context import current_tower_context

W = np.arange(1, 7, dtype="float64").reshape(3, 2) / 4
B = np.array([0.5, -0.5])
ROWS = [0, 2, 0]


@dataclass
class Slots:
    """What an optimizer written in numpy keeps of a variable: zeros until it is set."""

    step: int = 0
    values: dict[str, Any] = field(default_factory=dict)

    def get(self, name, like, start=0.0):
        return self.values.setdefault(name, np.full_like(like, start))


def averages(slots, g, squares=np.square):
    m, v = slots.get("m", g), slots.get("v", g)
    m[...] = 0.9 * m + 0.1 * g
    v[...] = 0.999 * v + 0.001 * squares(g)
    return m, v


def adam(w, g, slots, rate=0.1):
    m, v = averages(slots, g)
    rate = rate * np.sqrt(1 - 0.999**slots.step) / (1 - 0.9**slots.step)
    return w - rate * m / (np.sqrt(v) + 1e-8)


def nadam(w, g, slots):
    m, v = averages(slots, g)
    rate = 0.1 * np.sqrt(1 - 0.999**slots.step) / (1 - 0.9**slots.step)
    return w - rate * (0.9 * m + 0.1 * g) / (np.sqrt(v) + 1e-8)


def adamax(w, g, slots):
    m, v = slots.get("m", g), slots.get("v", g)
    m[...] = 0.9 * m + 0.1 * g
    v[...] = np.maximum(0.999 * v, np.abs(g))
    return w - 0.1 / (1 - 0.9**slots.step) * m / (v + 1e-8)


def momentum(w, g, slots, rate=0.1, nesterov=False):
    accum = slots.get("momentum", g)
    accum[...] = 0.9 * accum + g
    return w - rate * (g + 0.9 * accum if nesterov else accum)


def _nesterov(w, g, slots):
    return momentum(w, g, slots, nesterov=True)


def lars(w, g, slots):
    w_norm, g_norm = np.linalg.norm(w), np.linalg.norm(g)
    trust = 0.1 * w_norm / (g_norm + 0.01 * w_norm + 0.2) if g_norm > 0 else 1.0
    return momentum(w, 0.1 * trust * (g + 0.01 * w), slots, 1.0, nesterov=True)


def sign(g, slots):
    m = slots.get("m", g)
    m[...] = 0.9 * m + 0.1 * g
    return np.sign(g) * np.sign(m)


def adagrad(w, g, slots):
    accum = slots.get("accum", g, 0.1)
    accum[...] += g * g
    return w - 0.1 * g / np.sqrt(accum)


def clipped(w, g, slots):
    moved = w - 0.1 * g
    if w.ndim == 1:
        return moved
    norms = np.linalg.norm(moved, axis=1, keepdims=True)
    return moved * np.minimum(1, 0.7 / norms)


def decayed(step):
    return 1 - (step - 1) / 10


def _decay_fn(step):
    return 1 - tf.cast(step, tf.float32) / 10


def _w():
    return [var for var in tf.global_variables() if var.op.name.endswith("w")]


AdagradW = opt.extend_with_decoupled_weight_decay(tf.train.AdagradOptimizer)
GLOBAL_STEP = tf.train.get_or_create_global_step

# name: the optimizer, a step in numpy, the names of slots, and whether rows without a gradient stay as they are, None
# where a sparse gradient has rules of its own.
CASES = {
    "adamax": (lambda: opt.AdaMaxOptimizer(0.1), adamax, ["AdaMax", "AdaMax_1"], True),
    "nadam": (lambda: opt.NadamOptimizer(0.1), nadam, ["Adam", "Adam_1"], False),
    "lazy": (lambda: opt.LazyAdamOptimizer(0.1), adam, ["Adam", "Adam_1"], True),
    "gs": (lambda: opt.AdamGSOptimizer(GLOBAL_STEP(), 0.1), adam, ["Adam", "Adam_1"], False),
    "lazygs": (lambda: opt.LazyAdamGSOptimizer(GLOBAL_STEP(), 0.1), adam, ["Adam", "Adam_1"], True),
    "adamw": (lambda: opt.AdamWOptimizer(0.05, 0.1), lambda w, g, s: adam(0.95 * w, g, s), ["AdamW", "AdamW_1"], None),
    "momentumw": (
        lambda: opt.MomentumWOptimizer(0.05, 0.1, 0.9, use_nesterov=True),
        lambda w, g, s: momentum(0.95 * w, g, s, nesterov=True),
        ["MomentumW"],
        True,
    ),
    "adagradw": (
        lambda: AdagradW(weight_decay=0.05, learning_rate=0.1),
        lambda w, g, s: adagrad(0.95 * w, g, s),
        ["Adagrad"],
        True,
    ),
    "addsign": (
        lambda: opt.AddSignOptimizer(0.1, alpha=1.5, sign_decay_fn=_decay_fn),
        lambda w, g, s: w - 0.1 * (1.5 + decayed(s.step) * sign(g, s)) * g,
        ["AddSignOptimizer"],
        False,
    ),
    "powersign": (
        lambda: opt.PowerSignOptimizer(0.1, base=2.0, sign_decay_fn=_decay_fn),
        lambda w, g, s: w - 0.1 * 2 ** (decayed(s.step) * sign(g, s)) * g,
        ["PowerSignOptimizer"],
        False,
    ),
    "lars": (
        lambda: opt.LARSOptimizer(0.1, weight_decay=0.01, eeta=0.1, epsilon=0.2, use_nesterov=True),
        lars,
        ["LARSOptimizer"],
        None,
    ),
    "average": (
        lambda: opt.MovingAverageOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), 0.5),
        momentum,
        ["Momentum", "ExponentialMovingAverage"],
        False,
    ),
    "regadagrad": (lambda: opt.RegAdagradOptimizer(0.1), adagrad, ["RegAdagrad"], False),
    "clipping": (
        lambda: opt.VariableClippingOptimizer(tf.train.GradientDescentOptimizer(0.1), {_w()[0]: [1]}, 0.7),
        clipped,
        [],
        True,
    ),
}


def variables(dtype):
    return [tf.get_variable(name, initializer=value.astype(dtype)) for name, value in (("w", W), ("b", B))]


def steps_of(optimizer, sparse, dtype="float64", steps=4):
    """Return the values after each step, and the names of all variables."""
    with tf.Graph().as_default() as graph:
        step = GLOBAL_STEP()
        w, b = variables(dtype)
        rows = tf.square(tf.gather(w, ROWS)) if sparse else tf.square(w) * [[1.0, 2.0]]
        train_op = optimizer().minimize(tf.reduce_sum(rows) + tf.reduce_sum(tf.sin(b)), global_step=step)
        with cpu_session(graph, num_cpus=1, rewrites=False) as session:
            session.run(tf.global_variables_initializer())
            values = []
            for _ in range(steps):
                session.run(train_op)
                values.append(session.run([w, b]))
            return values, {var.op.name for var in tf.global_variables()}


def numpy_steps(formula, sparse, rows_only, steps=4):
    w, b, of_w, of_b, values = W.copy(), B.copy(), Slots(), Slots(), []
    used = sorted(set(ROWS))
    for number in range(1, steps + 1):
        of_w.step = of_b.step = number
        gradient = np.zeros_like(w)
        np.add.at(gradient, ROWS, 2 * w[ROWS])
        if not sparse:
            w = formula(w, 2 * w * [[1.0, 2.0]], of_w)
        elif rows_only:
            w[used] = formula(w[used], gradient[used], of_w)
        else:
            w = formula(w, gradient, of_w)
        b = formula(b, np.cos(b), of_b)
        values.append([w.copy(), b.copy()])
    return values


ALL = [(name, sparse) for name in CASES for sparse in (False, True) if not (name == "adamw" and sparse)]


@pytest.mark.parametrize(("name", "sparse"), ALL)
def test_steps_are_those_of_the_formula(name, sparse):
    optimizer, formula, slots, rows_only = CASES[name]
    values, names = steps_of(optimizer, sparse)
    wanted = numpy_steps(_nesterov if sparse and name == "lars" else formula, sparse, rows_only)
    for got, expected in zip(values, wanted, strict=True):
        # Hyper-parameters are numbers of 32 bits.
        np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=1e-6)
        if not (name == "lars" and sparse):
            np.testing.assert_allclose(got[1], expected[1], rtol=1e-4, atol=1e-6)
    assert {f"w/{slot}" for slot in slots} | {f"b/{slot}" for slot in slots} <= names


def train(builder, name, num_towers):
    """Return the weights of each tower after steps of a builder on the data of ``num_towers`` towers."""
    data = batches(num_towers, "float64")
    with tf.Graph().as_default() as graph:
        step, count = tf.placeholder(tf.int32, []), GLOBAL_STEP()

        def grad_fn():
            tower = current_tower_context()
            rows = len(data["x"][0]) // tower.total
            part = slice(tower.index * rows, (tower.index + 1) * rows)
            cost = build_cost(*(tf.constant(data[key][:, part])[step] for key in ("x", "p", "ids", "y")))
            variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
            return list(zip(tf.gradients(cost, variables), variables, strict=True))

        made = []

        def optimizer_fn():
            if not made:
                made.append(OF_MODEL.get(name, CASES[name][0])())
            return made[0]

        result = builder.build(grad_fn, optimizer_fn)
        with tf.control_dependencies([result.train_op]):
            train_op = count.assign_add(1)
        with cpu_session(graph, num_cpus=num_towers, rewrites=False) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            if result.init_op is not None:
                session.run(result.init_op)
            for number in range(STEPS):
                session.run(train_op, {step: number})
            towers = [tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES) for tower in result.towers]
            return session.run(towers)


def _embedding():
    return next(var for var in tf.global_variables() if var.op.name == "embedding")


OF_MODEL = {
    "clipping": lambda: opt.VariableClippingOptimizer(tf.train.GradientDescentOptimizer(0.1), {_embedding(): [1]}, 0.3)
}


# Of each way to step one: the others differ in the formula alone.
@pytest.mark.parametrize("name", ["adamax", "lazygs", "adamw", "powersign", "lars", "average", "clipping"])
def test_two_towers_equal_one(name):
    towers = train(SyncMultiGPUReplicatedBuilder(2), name, 2)
    [one] = train(SimpleBuilder(), name, 2)
    for tower in towers:
        for got, wanted in zip(tower, one, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-10)
