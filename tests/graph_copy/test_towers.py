"""Graphs with copies of towers are those that are built without, and what cannot be copied is built."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.copied_graphs import build, described
from tests.helpers.log_lines import captured_log
from tests.helpers.sessions import cpu_session
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.trainer import StrategyBuilder
from tpack.errors import ConfigError, GraphBuildError
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import SyncMultiGPUParameterServerBuilder, build_towers
from tpack.graph_copy.towers import call_in_replicated_towers, replicate_by_copy
from tpack.models.batch_norm import BatchNorm
from tpack.models.fc import FullyConnected
from tpack.models.regularize import Dropout
from tpack.tower.context import current_tower_context
from tpack.tower.getters import compute_in

DEVICES = [f"/device:CPU:{k}" for k in range(4)]
BUILDERS = {
    "replicated": lambda how: SyncMultiGPUReplicatedBuilder(4, tower_building=how),
    "parameter server": lambda how: SyncMultiGPUParameterServerBuilder(4, tower_building=how),
    "mirrored": lambda how: StrategyBuilder(MirroredStrategy(DEVICES, tower_building=how)),
}


def layers(x, y):
    """Everything that copies have to get right: layers, random numbers, a loop, updates, losses, summaries."""
    h = FullyConnected("fc", x, 5, activation=tf.nn.relu)
    h = BatchNorm("bn", h)
    h = tf.nn.dropout(Dropout("drop", h, rate=0.5), rate=0.1) + tf.gather(tf.get_variable("embedding", [7, 5]), y)
    h = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, h * 0.5), [0, h])[1]
    tf.summary.scalar("mean", tf.reduce_mean(h))
    tf.losses.add_loss(tf.reduce_mean(h))
    tf.add_to_collection("mine", h)
    return tf.reduce_mean(h**2, name="cost")


@pytest.mark.parametrize("kind", BUILDERS)
def test_a_graph_with_copies_is_the_one_that_is_built(kind):
    def model(x, y):
        return layers(x, y) if kind != "mirrored" else tf.reduce_mean(FullyConnected("fc", x, 5) ** 2)

    graphs = {how: build(model, BUILDERS[kind](how)) for how in ("build", "copy")}
    built, copied = (described(graphs[how][0], copies_are_set=kind == "replicated") for how in ("build", "copy"))
    assert copied["nodes"] == built["nodes"]
    assert copied["collections"] == built["collections"]
    assert copied == built
    handles = [[(h.name, h.output.name, h.inputs[0].name) for h in graphs[how][1].towers] for how in graphs]
    assert handles[0] == handles[1]
    assert len(handles[0]) == 4


def branch_and_loop(x, y):
    """Variables that are read in a branch and in a loop, whose gradients ask for the variables' shapes."""
    scale, turn = tf.get_variable("scale", [4]), tf.get_variable("turn", [4, 4])
    x = tf.cond(tf.reduce_sum(x) > 0, lambda: x * scale, lambda: x - scale)
    return tf.reduce_mean(tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, tf.tanh(h @ turn)), (0, x))[1])


def in_16_bits(x, y):
    with compute_in("bfloat16"):
        return tf.reduce_mean(tf.cast(layers(tf.cast(x, tf.bfloat16), y), tf.float32))


def asserting(x, y):
    """A check whose branches are functions, of which each tower has its own."""
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(x < 1e9), ["x got", tf.reduce_max(x)])]):
        return layers(tf.identity(x), y)


@pytest.mark.parametrize("kind", ["replicated", "parameter server"])
def test_functions_of_copies_are_written_with_shapes(kind):
    graph, _, _ = build(asserting, BUILDERS[kind]("copy"))
    written = graph.as_graph_def(add_shapes=True)
    own = [f.signature.name for f in written.library.function if f.signature.name.endswith(("_tower2", "_tower3"))]
    assert len([name for name in own if "AssertGuard" in name]) == 4
    assert any("while_body" in name for name in own)
    with tf.Graph().as_default() as again:
        tf.import_graph_def(written, name="")
        assert len(again.get_operations()) == len(graph.get_operations())


@pytest.mark.parametrize("model", [branch_and_loop, in_16_bits])
@pytest.mark.parametrize("kind", ["replicated", "parameter server"])
def test_branches_loops_and_16_bits_are_copied(kind, model):
    built, copied = (
        described(build(model, BUILDERS[kind](how))[0], copies_are_set=kind == "replicated")
        for how in ("build", "copy")
    )
    assert copied == built


def test_copies_that_are_set_have_no_first_values_of_their_own():
    def model(x, y):
        w = tf.get_variable("w", [4, 5])
        used_twice = tf.get_variable("v", [5])
        return tf.reduce_mean((x @ w + used_twice + used_twice.initial_value) ** 2)

    graph, _, result = build(model, BUILDERS["replicated"]("copy"))
    names = {op.name for op in graph.get_operations()}
    made = [name for name in names if name.startswith("tower1/")]
    missing = {name for name in made if name.replace("tower1", "tower2") not in names}
    initial = {name for name in made if "/Initializer/" in name and not name.startswith("tower1/v/Initializer/")}
    assert missing == initial | {name for name in made if name.endswith("/VarIsInitializedOp")}
    assert len(missing) > 20
    second, third = ({v.op.name.partition("/")[2]: v for v in t.recorder.variables} for t in result.towers[1:3])
    assert not hasattr(third["w"], "_is_initialized_op")
    with graph.as_default(), cpu_session(graph, num_cpus=4) as session:
        assert third["w"].initial_value is second["w"].initial_value
        assert third["v"].initial_value.op.name.startswith("tower2/v/Initializer/")
        session.run([third["w"].initializer, second["w"].initializer])
        np.testing.assert_array_equal(*session.run([second["w"], third["w"]]))
        third["w"].load(np.ones([4, 5]), session)
        assert session.run(third["w"]).sum() == 20
        assert session.run(tf.is_variable_initialized(third["w"]))


def test_copies_train_as_built_towers_do():
    def model(x, y):
        h = FullyConnected("fc", x, 5, activation=tf.nn.tanh) + tf.gather(tf.get_variable("embedding", [7, 5]), y)
        return tf.reduce_mean(h**2, name="cost")

    weights = []
    for how in ("build", "copy"):
        graph, _, result = build(model, BUILDERS["replicated"](how))
        rng = np.random.default_rng(0)
        with cpu_session(graph, num_cpus=4) as session, graph.as_default():
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            session.run(result.init_op)
            feed = {"whole_x:0": rng.normal(size=(3, 4)), "whole_y:0": [1, 2, 3]}
            for _ in range(3):
                session.run(result.train_op, feed)
            weights.append(session.run([v for tower in result.towers for v in tower.recorder.variables]))
    assert len(weights[0]) == len(weights[1]) > 12
    assert all(np.array_equal(a, b) for a, b in zip(*weights, strict=True))


COUNTS = {"calls": 0}


def _count(x):
    COUNTS["calls"] += 1
    return x


REFUSED = {
    "what differs from tower to tower: index": lambda x: x * current_tower_context().index,
    "what differs from tower to tower: merge_call": lambda x: current_tower_context().merge_call(lambda xs: xs, x),
    "a FIFOQueueV2, which has a state of its own": lambda x: (
        x + tf.cast(tf.FIFOQueue(1, tf.float32).size(), tf.float32)
    ),
    "EagerPyFunc, which has a state of its own": lambda x: tf.py_function(lambda a: a, [x], tf.float32),
    "outside of the tower's name scope": lambda x: _at_the_root(x),
    "value differs": lambda x: x + np.random.default_rng().normal(size=3),
    "calls": _count,
}


def _at_the_root(x):
    with tf.name_scope(None):
        return tf.identity(x, name="lost")


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_copied_is_built_and_the_log_says_why(graph, reason):
    def tower():
        return REFUSED[reason](tf.ones([3]) * 2)

    def towers(how):
        with tf.Graph().as_default():
            return build_towers(tower, DEVICES, [True] * 4, tower_building=how).outputs

    with captured_log() as lines:
        outputs = towers("auto")
    assert len({output.name for output in outputs}) == 4
    assert [reason in line for line in lines if "cannot be copied" in line] == [True]
    with pytest.raises(GraphBuildError, match="tower_building='auto'"):
        towers("copy")


def test_what_a_function_keeps_is_kept_for_copies(graph):
    kept = []

    def tower():
        kept.append(tf.ones([], name="one"))
        return kept[-1]

    assert build_towers(tower, DEVICES, [False] * 4, tower_building="copy").outputs == kept
    assert [one.device for one in kept] == DEVICES


def test_a_call_inside_of_another_is_copied_alone(graph):
    calls = []

    def tower():
        place = tf.constant(float(current_tower_context().index))
        calls.append(place.name)
        return replicate_by_copy(lambda x: tf.square(x, name="square"), place)

    outputs = build_towers(tower, DEVICES, [True] * 4, tower_building="copy").outputs
    assert len(calls) == 4
    with cpu_session(graph, num_cpus=4) as session:
        assert session.run(outputs) == [0, 1, 4, 9]


def test_arguments_of_other_kinds_are_built_with(graph):
    args = [(tf.ones([2]), 1), (tf.ones([2]), 1), (tf.ones([3]), 1), (tf.ones([2]), 2)]

    def tower():
        return replicate_by_copy(lambda x, factor: x * factor, *args[current_tower_context().index])

    outputs = build_towers(tower, DEVICES, [True] * 4, tower_building="copy").outputs
    with cpu_session(graph, num_cpus=4) as session:
        assert [value.tolist() for value in session.run(outputs)] == [[1, 1], [1, 1], [1, 1, 1], [2, 2]]


def test_a_function_that_meets_nobody_is_called_plainly_outside_of_towers(graph):
    assert replicate_by_copy(lambda a, b: a + b, 1, 2) == 3


def test_an_unknown_way_is_refused():
    with pytest.raises(ConfigError, match="tower_building"):
        call_in_replicated_towers([], lambda: None, "clone")
    with pytest.raises(ConfigError, match="tower_building"):
        SyncMultiGPUReplicatedBuilder(2, tower_building="clone")
