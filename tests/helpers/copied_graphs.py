"""Whether a graph with copies of towers is the one that is built: the same in all but the order of operations."""

import re
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import names_in_use
from tpack.graph_builder.cost import GradientOptions, make_grad_fn
from tpack.step.step_seeds import let_seeds_follow_steps
from tpack.tower.tower_func import TowerFunc

SIGNATURE = (tf.TensorSpec([None, 4], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "y"))

_OF_A_COPY = re.compile(r"tower([2-9]|\d\d+)/")


def build(model: Any, builder: Any) -> tuple[tf.Graph, TowerFunc, Any]:
    """Build a model of ``x`` and ``y`` and its gradients; return the graph, the tower function and the result."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(5)
        tf.train.get_or_create_global_step()
        let_seeds_follow_steps()
        x, y = (tf.placeholder(spec.dtype, spec.shape, f"whole_{spec.name}") for spec in SIGNATURE)
        tower_func = TowerFunc(model, SIGNATURE)
        optimizer = tf.train.AdamOptimizer(0.1)
        grad_fn = make_grad_fn(
            lambda: [tf.identity(x), tf.identity(y)], tower_func, lambda: optimizer, GradientOptions()
        )
        return graph, tower_func, builder.build(grad_fn, lambda: optimizer)


def described(graph: tf.Graph, copies_are_set: bool = False) -> dict[str, Any]:
    """Return what there is to know of a graph by names: nodes, collections and names that are taken.

    The names of operations count as taken, which TensorFlow forgets of an optimizer's slots.

    Args:
        graph: the graph.
        copies_are_set: leave out what gives the variables of the third tower and all that follow their first values.
    """
    graph_def = graph.as_graph_def()
    if copies_are_set:
        _leave_out_first_values(graph_def)
    functions = {function.signature.name for function in graph_def.library.function}
    nodes = {node.name: _described(node, functions) for node in graph_def.node}
    keys = [key for key in graph.get_all_collection_keys() if isinstance(key, str)]
    items = {key: [getattr(item, "name", item) for item in graph.get_collection(key)] for key in keys}
    names = dict.fromkeys((name.lower() for name in nodes), 1) | names_in_use(graph)
    return {"nodes": nodes, "collections": items, "names": names}


def _leave_out_first_values(graph_def: tf.GraphDef) -> None:
    variables = {node.name for node in graph_def.node if node.op == "VarHandleOp" and _OF_A_COPY.match(node.name)}
    initial = [f"{name}/{part}/" for name in variables for part in ("Initializer", "IsInitialized")]
    kept = [node for node in graph_def.node if not any(scope in node.name for scope in initial)]
    for node in kept:
        if node.name.removesuffix("/Assign") in variables:
            del node.input[1:]
    nodes = [tf.NodeDef.FromString(node.SerializeToString()) for node in kept]
    del graph_def.node[:]
    graph_def.node.extend(nodes)


def _described(node: tf.NodeDef, functions: set[str]) -> Any:
    # TensorFlow numbers functions and gradients of one's own through the whole process.
    attributes = {key: str(value) for key, value in node.attr.items() if value.func.name not in functions}
    if "_gradient_op_type" in attributes:
        attributes["_gradient_op_type"] = re.sub(
            r"-\d+( of a tower that is a copy)?", "", attributes["_gradient_op_type"]
        )
    data = [name for name in node.input if not name.startswith("^")]
    return node.op, node.device, data, sorted(set(node.input) - set(data)), attributes
