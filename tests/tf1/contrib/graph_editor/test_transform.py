"""Copies of parts of a graph."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.graph_editor as ge
from tests.helpers.edited_graph import build, inputs, names
from tests.helpers.sessions import cpu_session
from tpack.errors import ConfigError, WrongTypeError


@pytest.fixture
def tensors(graph):
    return build()


def test_a_copy_has_placeholders_for_inputs(session8, tensors):
    _, b, c, d, e, *_ = tensors
    view, info = ge.copy(ge.sgv(c.op, d.op, e.op))
    copies = [info.transformed(tensor) for tensor in (c, d, e)]
    assert names(copies) == "c_1 d_1 e_1"
    assert inputs(copies[0].op) == ["geph__a_0", "geph__b_0"]
    assert copies[2].op.control_inputs == [b.op]
    assert (view.inputs, view.outputs) == ([], [copies[2]])
    assert info.transformed(["s/c", e.op]) == [copies[0].op, copies[2].op]
    assert info.original(copies) == [c, d, e]
    assert info.transformed(b) is None
    assert info.transformed(b, missing_fn=lambda tensor: tensor) is b
    fed = {"geph__a_0:0": [1.0, 2.0], "geph__b_0:0": [1.0, 1.0], "geph__y_0:0": 3.0}
    assert session8.run(copies[2], fed).tolist() == [6.0, 9.0]


def test_copies_are_in_a_scope_of_their_own(graph, tensors):
    _, _, c, d, *_ = tensors
    graph.add_to_collection("mine", d)
    graph.add_to_collection(tf.GraphKeys.LOSSES, d)
    for scope in ("t", "t_1"):
        info = ge.copy([c.op, d.op], dst_scope="t")[1]
        assert info.transformed(d).name == f"{scope}/s/d:0"
        assert graph.get_collection(f"{scope}/mine") == [info.transformed(d)]
    assert len(graph.get_collection(tf.GraphKeys.LOSSES)) == 3
    assert ge.copy([c.op], dst_scope="s", src_scope="s", reuse_dst_scope=True)[1].transformed(c).name == "s/c_1:0"
    assert ge.copy([c.op], dst_scope="u", src_scope="s/")[1].transformed(c).name == "u/c:0"
    with pytest.raises(ConfigError, match="mine got src_scope='s/'"):
        ge.copy([c.op, d.op], dst_scope="v", src_scope="s")


def test_a_copy_in_another_graph_computes_the_same(tensors):
    _, _, c, d, e, *_ = tensors
    with tf.Graph().as_default() as other:
        _, info = ge.copy(ge.sgv(c.op, d.op, e.op), dst_graph=other)
        copied = info.transformed(e)
        assert (copied.graph, copied.op.control_inputs) == (other, [])
        with cpu_session(other) as session:
            fed = {"geph__a_0:0": [1.0, 2.0], "geph__b_0:0": [0.0, 0.0], "geph__y_0:0": 2.0}
            assert session.run(copied, fed).tolist() == [2.0, 4.0]


def test_inputs_are_replaced_and_others_stay(session8, tensors):
    a, b, c, d, e, *_ = tensors
    _, info = ge.copy_with_input_replacements(ge.sgv(c.op, d.op, e.op), {a: b})
    assert inputs(info.transformed(c).op) == ["b", "b"]
    assert inputs(info.transformed(d).op) == ["s/c_1", "s/d/y"]
    # The constant is replaced as an input, and stays as a control input.
    _, info = ge.copy_with_input_replacements([c.op, e.op], {b: a, d: a})
    assert (inputs(info.transformed(c).op), info.transformed(e).op.control_inputs) == (["a", "a"], [b.op])
    assert session8.run(info.transformed(c), {a: [1.0, 2.0]}).tolist() == [2.0, 4.0]


def test_targets_are_computed_of_replacements(session8, tensors):
    a, b, c, _, e, _, g = tensors
    replaced = ge.graph_replace({"g": g, "rest": [e, a]}, {c: b}, dst_scope="q")
    assert [tensor.name for tensor in (replaced["g"], *replaced["rest"])] == ["q/g:0", "q/s/e:0", "a:0"]
    assert session8.run(replaced, {a: [1.0, 2.0]})["g"].tolist() == [0.0, 0.0]
    with pytest.raises(ConfigError, match="graph_replace got 1 target_ts"):
        ge.graph_replace([c], {g: b})


def test_a_loop_is_copied_whole(session8):
    start = tf.placeholder_with_default(1.0, [])
    end = tf.while_loop(lambda x: x < 100, lambda x: x * 2, [start])
    other = tf.constant(3.0)
    assert session8.run(ge.graph_replace(end, {start: other})) == 192


def test_copies_of_variables_are_variables_of_their_own(graph, session8):
    variable = tf.get_variable("v", initializer=2.0, use_resource=True)
    _, info = ge.copy(ge.sgv("^v", graph=graph), dst_scope="t")
    session8.run(info.transformed(variable.initializer))
    with pytest.raises(tf.errors.FailedPreconditionError):
        session8.run(variable)
    assert session8.run("t/v/Read/ReadVariableOp:0") == 2


def test_handlers_change_the_copies(graph, tensors):
    _, _, c, d, *_ = tensors
    transformer = ge.Transformer()
    transformer.transform_external_input_handler = ge.keep_t_if_possible_handler

    def on_cpu(node):
        node.device = "/device:CPU:0"
        return node

    transformer.transform_op_handler = functools.partial(ge.copy_op_handler, nodedef_fn=on_cpu)
    _, info = transformer([c.op, d.op], graph, "x")
    assert (info.transformed(c).device, inputs(info.transformed(c).op)) == ("/device:CPU:0", ["a", "b"])
    copied, outputs = ge.copy_op_handler(info, d.op, [c, c], nodedef_fn=on_cpu)
    assert (copied.name, inputs(copied), outputs) == ("x/s/d_1", ["s/c", "s/c"], list(copied.outputs))
    transformer.transform_op_handler = copied
    with pytest.raises(ConfigError, match="transform_op_handler"):
        transformer([c.op], graph, "y")
    with pytest.raises(WrongTypeError, match="Transformer got dst_graph"):
        transformer([c.op], None, "y")


def test_gradients_of_recomputed_activations_are_the_same(graph, session8):
    """The steps of gradient checkpointing: copy the forward pass between checkpoints, and take gradients there."""
    x = tf.constant(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))
    weights = [tf.get_variable(f"w{i}", initializer=tf.eye(4) * (i + 1), use_resource=True) for i in range(4)]
    layers = [x]
    for weight in weights:
        layers.append(tf.nn.tanh(tf.matmul(layers[-1], weight)))
    cost, kept = tf.reduce_sum(layers[-1]), layers[2]
    expected = tf.gradients(cost, weights)
    seeds = [weight.op for weight in weights]
    forward = ge.get_forward_walk_ops(seeds, within_ops=ge.get_backward_walk_ops(cost.op))
    upper = ge.get_backward_walk_ops(cost.op, stop_at_ts=[kept])
    upper = [op for op in upper if op in forward and op.inputs]
    cut = tf.stop_gradient(kept)
    _, info = ge.copy_with_input_replacements(ge.sgv(upper), {})
    assert ge.reroute_ts([cut], [kept], can_modify=info._transformed_ops.values()) == 1
    through, *of_upper = tf.gradients(info.transformed(cost), [cut, *weights[2:]])
    of_lower = tf.gradients(kept, weights[:2], grad_ys=through)
    session8.run(tf.global_variables_initializer())
    for first, second in zip(*session8.run([expected, [*of_lower, *of_upper]]), strict=True):
        assert np.array_equal(first, second)
