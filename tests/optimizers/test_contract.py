"""All optimizers of the package: their formulas in numpy, those of Keras, K towers as one, copies and checkpoints."""

import inspect
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.equivalence import one_tower, train
from tests.helpers.sessions import cpu_session
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.trainer import StrategyBuilder
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import SyncMultiGPUParameterServerBuilder
from tpack.optimizers.hyper import BIASES_AND_NORMS
from tpack.optimizers.matrices import Adafactor, Muon
from tpack.optimizers.weight_decay import LAMB, LARS, AdamW, Lion
from tpack.tfutils.optimizer_clone import clone_optimizer

STEPS = 30
RATE = 0.03
DECAY = 0.2
VALUES = {
    "fc/W": np.arange(1, 13, dtype="float64").reshape(4, 3) / 4,
    "fc/b": np.array([0.5, -0.5, 2.0]),
    "zeros": np.zeros(3),
    "embedding": np.arange(8, dtype="float64").reshape(4, 2) / 3 - 1,
}
ROWS = [0, 2, 0]
MAKERS = {
    "adamw": lambda rate=RATE, decay=DECAY, **more: AdamW(rate, decay, epsilon=1e-4, **more),
    "lamb": lambda rate=RATE, decay=DECAY, **more: LAMB(rate, decay, epsilon=1e-4, **more),
    "lars": lambda rate=RATE, decay=DECAY, **more: LARS(rate, decay, trust=0.5, **more),
    "nesterov": lambda rate=RATE, decay=DECAY, **more: LARS(rate, decay, trust=0.5, use_nesterov=True, **more),
    "lion": lambda rate=RATE, decay=DECAY, **more: Lion(rate, decay, **more),
    "muon": lambda rate=RATE, decay=DECAY, **more: Muon(rate, decay, epsilon=1e-4, **more),
    "adafactor": lambda rate=RATE, decay=DECAY, **more: Adafactor(rate, decay, **more),
    "free adafactor": lambda rate=RATE, decay=DECAY, **more: Adafactor(
        rate, decay, relative_step=False, beta2_decay=-0.5, epsilon2=0.5, clip_threshold=0.7, **more
    ),
}


@dataclass
class State:
    """What an optimizer written in numpy knows of a variable: its averages, the step, and whether it is left out."""

    left_out: bool
    step: int = 0
    slots: dict[str, Any] = field(default_factory=dict)

    def average(self, name, value, keep):
        self.slots[name] = keep * self.slots.get(name, 0) + (1 - keep) * value
        return self.slots[name]


def corrected_averages(g, state):
    m, v = state.average("m", g, 0.9), state.average("v", g * g, 0.999)
    return m / (1 - 0.9**state.step), v / (1 - 0.999**state.step)


def adamw(w, g, state):
    m, v = corrected_averages(g, state)
    epsilon = 1e-4 / np.sqrt(1 - 0.999**state.step)
    decay = 0 if state.left_out else DECAY
    return w - RATE * (m / (np.sqrt(v) + epsilon) + decay * w)


def lamb(w, g, state):
    m, v = corrected_averages(g, state)
    step = m / (np.sqrt(v) + 1e-4)
    if state.left_out:
        return w - RATE * step
    step = step + DECAY * w
    norm, length = np.linalg.norm(w), np.linalg.norm(step)
    return w - RATE * (norm / length if norm and length else 1) * step


def lars(w, g, state, nesterov=False):
    rate = RATE
    if not state.left_out:
        norm, length = np.linalg.norm(w), np.linalg.norm(g)
        rate *= 0.5 * norm / (length + DECAY * norm) if norm and length else 1
        g = g + DECAY * w
    accum = 0.9 * state.slots.get("accum", 0) + rate * g
    state.slots["accum"] = accum
    return w - (0.9 * accum + rate * g if nesterov else accum)


def lion(w, g, state):
    before = state.slots.get("m", 0)
    state.average("m", g, 0.99)
    return w - RATE * (np.sign(0.9 * before + 0.1 * g) + (0 if state.left_out else DECAY) * w)


def muon(w, g, state):
    decay = 0 if state.left_out else DECAY
    if w.ndim < 2 or w.shape == VALUES["embedding"].shape:
        return adamw(w, g, state)
    w = w - RATE * decay * w
    state.slots["m"] = 0.95 * state.slots.get("m", 0) + g
    x = g + 0.95 * state.slots["m"]
    x = x.T / np.linalg.norm(x)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return w - RATE * 0.2 * np.sqrt(max(w.shape)) * x.T


def adafactor(w, g, state, *, is_relative=True, power=-0.8, least=1e-3, clip=1.0):
    def mean(name, value):
        return state.average(name, value, 1 - state.step**power)

    w = w - RATE * (0 if state.left_out else DECAY) * w
    squares = g**2 + 1e-30
    if w.ndim < 2:
        moment = mean("v", squares)
    else:
        rows, columns = mean("r", squares.mean(-1)), mean("c", squares.mean(-2))
        moment = rows[:, None] * columns / rows.mean()
    step = g / np.sqrt(moment)
    step = step / max(1, np.sqrt(np.mean(step**2)) / clip)
    rate = min(RATE, state.step**-0.5) if is_relative else RATE
    return w - rate * max(least, np.sqrt(np.mean(w**2))) * step


FORMULAS = {
    "muon": muon,
    "adafactor": adafactor,
    "free adafactor": lambda w, g, state: adafactor(w, g, state, is_relative=False, power=-0.5, least=0.5, clip=0.7),
    "adamw": adamw,
    "lamb": lamb,
    "lars": lars,
    "nesterov": lambda w, g, state: lars(w, g, state, nesterov=True),
    "lion": lion,
}


def cost_of(variables):
    """Return a cost whose gradient is dense for all but the embedding, and never of the same size for long."""
    embedded = tf.gather(variables["embedding"], ROWS)
    dense = [tf.reduce_sum(tf.sin(3 * variables[name]) + variables[name]) for name in ("fc/W", "fc/b", "zeros")]
    return tf.add_n(dense) + tf.reduce_sum(tf.square(embedded) * [[1.0, 2.0]])


def gradients_of(values):
    embedding = np.zeros_like(values["embedding"])
    np.add.at(embedding, ROWS, 2 * values["embedding"][ROWS] * [[1.0, 2.0]])
    dense = {name: 3 * np.cos(3 * values[name]) + 1 for name in ("fc/W", "fc/b", "zeros")}
    return {**dense, "embedding": embedding}


def make_variables(dtype="float64"):
    return {name: tf.get_variable(name, initializer=value.astype(dtype)) for name, value in VALUES.items()}


def steps_of(make, steps=STEPS, rates=()):
    """Return the values after each step of an optimizer that ``make`` makes in a new graph."""
    with tf.Graph().as_default() as graph, cpu_session(graph, num_cpus=1, rewrites=False) as session:
        variables = make_variables()
        train_op = make().minimize(cost_of(variables))
        session.run(tf.global_variables_initializer())
        found = []
        for number in range(steps):
            if rates:
                tf.get_collection("rate")[0].load(rates[number], session)
            session.run(train_op)
            found.append(session.run(variables))
        return found


def numpy_steps(formula, left_out=()):
    values = {name: value.copy() for name, value in VALUES.items()}
    states = {name: State(name in left_out) for name in values}
    found = []
    for number in range(1, STEPS + 1):
        gradients = gradients_of(values)
        for name, state in states.items():
            state.step = number
            values[name] = formula(values[name], gradients[name], state)
        found.append(dict(values))
    return found


def assert_same_steps(got, wanted, rtol=1e-4):
    for one, other in zip(got, wanted, strict=True):
        for name, value in one.items():
            # Adam's rates and counters have 32 bits.
            np.testing.assert_allclose(value, other[name], rtol, atol=5e-6, err_msg=name)


@pytest.mark.parametrize("name", MAKERS)
def test_steps_are_those_of_the_formula(name):
    assert_same_steps(steps_of(MAKERS[name]), numpy_steps(FORMULAS[name]))


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_left_out_does_not_decay(name):
    def make():
        return MAKERS[name](no_decay=[BIASES_AND_NORMS, "^emb"])

    assert_same_steps(steps_of(make), numpy_steps(FORMULAS[name], ("fc/b", "embedding")))


# In Keras the decay is no part of LAMB's direction, and there is no LARS.
KERAS = {
    "adamw": (lambda: MAKERS["adamw"](), lambda: keras.optimizers.AdamW(RATE, DECAY, epsilon=1e-4)),
    "lamb": (lambda: MAKERS["lamb"](decay=0.0), lambda: keras.optimizers.Lamb(RATE, epsilon=1e-4)),
    "lion": (lambda: MAKERS["lion"](), lambda: keras.optimizers.Lion(RATE, weight_decay=DECAY)),
    "muon": (
        lambda: MAKERS["muon"](),
        lambda: keras.optimizers.Muon(RATE, weight_decay=DECAY, adam_weight_decay=DECAY, epsilon=1e-4),
    ),
    "adafactor": (lambda: MAKERS["adafactor"](), lambda: keras.optimizers.Adafactor(RATE, weight_decay=DECAY)),
}


@pytest.mark.parametrize("name", KERAS)
def test_steps_are_those_of_keras(name):
    if name == "muon" and "adam_weight_decay" not in inspect.signature(keras.optimizers.Muon).parameters:
        pytest.skip("Muon of this Keras is another one: test_steps_are_those_of_the_formula holds ours")
    ours, theirs = KERAS[name]
    optimizer = theirs()
    # Those of Keras whose steps are scaled in Python take no others.
    dtype = "float32" if name in ("adafactor", "muon") else "float64"
    variables = {key: keras.Variable(value, dtype=dtype, name=key.rpartition("/")[2]) for key, value in VALUES.items()}
    wanted = []
    for _ in range(STEPS):
        values = {key: variable.numpy() for key, variable in variables.items()}
        gradients = [tf.constant(gradient, dtype) for gradient in gradients_of(values).values()]
        optimizer.apply(gradients, list(variables.values()))
        wanted.append({key: variable.numpy() for key, variable in variables.items()})
    assert_same_steps(steps_of(ours), wanted)


BUILDERS = {
    "replicated": lambda: SyncMultiGPUReplicatedBuilder(3),
    "parameter-server": lambda: SyncMultiGPUParameterServerBuilder(3, "cpu"),
    "strategy": lambda: StrategyBuilder(MirroredStrategy([f"/cpu:{k}" for k in range(3)])),
}
SMALL = {name: (lambda make=make: make(0.05, 0.1, no_decay=BIASES_AND_NORMS)) for name, make in MAKERS.items()}


# The formula is the optimizer's, and how towers come together the builder's.
@pytest.mark.parametrize(
    ("builder", "name"),
    [
        *(("replicated", name) for name in ("adamw", "lamb", "lars", "lion", "muon", "adafactor")),
        ("parameter-server", "lamb"),
        ("parameter-server", "muon"),
        ("parameter-server", "adafactor"),
        ("strategy", "lamb"),
        ("strategy", "lion"),
        ("strategy", "adafactor"),
    ],
)
def test_three_towers_equal_one(builder, name):
    run, [oracle] = train(BUILDERS[builder](), SMALL[name], 3, rewrites=False), one_tower(SMALL[name], 3).weights
    for tower in run.weights:
        assert tower.keys() == oracle.keys()
        for name, value in tower.items():
            np.testing.assert_allclose(value, oracle[name], rtol=1e-9, atol=1e-11, err_msg=name)


def in_collection(rate):
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        variable = tf.get_variable("learning_rate", initializer=float(rate), trainable=False)
    tf.add_to_collection("rate", variable)
    return variable


@pytest.mark.parametrize("name", ["adamw", "lamb", "lars", "lion", "muon", "adafactor"])
def test_a_learning_rate_may_be_a_variable_or_a_function_of_tensors(name):
    make = MAKERS[name]
    rates = [0.1, 0.05, 0.0, 0.05]
    by_variable = steps_of(lambda: make(in_collection(7.0)), len(rates), rates=rates)
    by_function = steps_of(lambda: make(lambda: in_collection(7.0) * 1), len(rates), rates=rates)
    assert_same_steps(by_function, by_variable, rtol=0)
    assert_same_steps(by_variable[:1], steps_of(lambda: make(0.1), 1))
    assert not np.array_equal(by_variable[1]["fc/W"], by_variable[0]["fc/W"])
    # Without a rate nothing decays; the momentum of LARS goes on.
    assert np.array_equal(by_variable[2]["fc/W"], by_variable[1]["fc/W"]) == (name != "lars")


@pytest.mark.parametrize("name", ["adamw", "lamb", "lars", "lion", "muon", "adafactor"])
def test_copies_and_restored_ones_go_on_as_the_original(name, tmp_path):
    path = str(tmp_path / "model")
    whole = steps_of(MAKERS[name], 6)

    def in_graph(steps, restore):
        with tf.Graph().as_default() as graph, cpu_session(graph, num_cpus=1, rewrites=False) as session:
            variables = make_variables()
            train_op = clone_optimizer(MAKERS[name]()).minimize(cost_of(variables))
            saver = tf.train.Saver()
            if restore:
                saver.restore(session, path)
            else:
                session.run(tf.global_variables_initializer())
            for _ in range(steps):
                session.run(train_op)
            saver.save(session, path)
            return session.run(variables)

    in_graph(2, restore=False)
    assert_same_steps([in_graph(4, restore=True)], whole[-1:], rtol=0)


@pytest.mark.parametrize("name", MAKERS)
def test_norms_of_half_precision_do_not_overflow(session8, name):
    w = tf.get_variable("w", initializer=tf.fill([1000], tf.constant(100.0, "float16")))
    train_op = MAKERS[name](0.5, 0.01).minimize(tf.reduce_sum(w))
    session8.run(tf.global_variables_initializer())
    session8.run(train_op)
    after = session8.run(tf.cast(w, tf.float32))
    assert np.isfinite(after).all()
    assert (after < 100).all()
