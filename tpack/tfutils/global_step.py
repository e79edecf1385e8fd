"""The global step: one integer variable per graph that counts training steps over all runs.

It lies at the top of the graph whatever scope asks for it first, so that every checkpoint calls it ``global_step``.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.tfutils.tower_scope import shared_by_towers

GLOBAL_STEP_NAME = "global_step"


def get_global_step_var() -> Any:
    """Return the current graph's global step, creating it if there is none.

    The current name scope, variable scope, reuse, custom getters, devices and control dependencies do not matter.

    Creates:
        At most one int64 resource variable ``global_step`` on the CPU, in GLOBAL_VARIABLES and GLOBAL_STEP.

    Raises:
        GraphBuildError: No graph is current, or the graph has more than one global step.
    """
    with tf.init_scope():
        if tf.executing_eagerly():
            raise GraphBuildError(
                "wanted a graph to put the global step into, and TensorFlow is executing eagerly: "
                "call this inside `with graph.as_default():`"
            )
        steps = tf.get_collection(tf.GraphKeys.GLOBAL_STEP)
        if len(steps) > 1:
            raise GraphBuildError(f"wanted one global step in the graph, found {', '.join(v.name for v in steps)}")
        return steps[0] if steps else _create_global_step()


def _create_global_step() -> Any:
    # A variable scope made from scratch, unlike one entered by name, inherits nothing from the current one.
    top_scope = tf.VariableScope(reuse=tf.AUTO_REUSE, name="", use_resource=True)
    with (
        shared_by_towers(),
        tf.name_scope(None),
        tf.device(None),
        tf.device("/device:CPU:0"),
        tf.variable_scope(top_scope, auxiliary_name_scope=False),
    ):
        step = tf.get_variable(
            GLOBAL_STEP_NAME, shape=[], dtype=tf.int64, initializer=tf.zeros_initializer(), trainable=False
        )
    # Not among the arguments above: a variable that existed already would not be added.
    tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, step)
    return step


def get_global_step_value() -> int:
    """Return the global step's value in the default session.

    Raises:
        ConfigError: There is no default session, or its graph has no global step.
    """
    session = tf.get_default_session()
    if session is None:
        raise ConfigError("the global step's value lives in a session, and none is the default one")
    steps = session.graph.get_collection(tf.GraphKeys.GLOBAL_STEP)
    if not steps:
        raise ConfigError("the default session's graph has no global step: call get_global_step_var() when building it")
    return int(session.run(steps[0]))
