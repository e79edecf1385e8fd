"""Preparation of the first run: a fixed order of sums, and initial values of variables."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.compat.operations import fix_summation_order
from tpack.tfutils.sesscreate import ReuseSessionCreator, SessionCreator, makes_new_sessions
from tpack.tfutils.sessinit import JustCurrentSession, SessionInit
from tpack.tower.devices import check_session_devices
from tpack.utils import logger


def order_sums(graph: tf.Graph, session_creator: SessionCreator) -> None:
    """Give every sum in a complete graph a fixed order, so that a repeated run gives the same numbers.

    A user's session has usually run parts of the graph, which TensorFlow does not allow to change: its sums stay.
    """
    if not isinstance(session_creator, ReuseSessionCreator):
        fix_summation_order(graph.get_operations())


def initialize_variables(session: tf.Session, *, except_for: Sequence[tf.Variable] = (), is_new: bool = False) -> None:
    """Run the initialisers of the current graph's variables without a value, and those of lookup tables.

    Trained variables in a user's session stay. A new session skips the check, which takes an operation for each
    variable and a run that prepares the whole graph.

    Args:
        session: a session on the current default graph.
        except_for: variables that get their values in another way, such as copies of a large model.
        is_new: whether no variable can have a value yet; see `makes_new_sessions`.
    """
    excluded = {id(variable) for variable in except_for}
    variables = [v for v in (*tf.global_variables(), *tf.local_variables()) if id(v) not in excluded]
    if variables and not is_new:
        with tf.name_scope("initialize"):
            is_set = session.run([tf.is_variable_initialized(variable) for variable in variables])
        variables = [variable for variable, has_value in zip(variables, is_set, strict=True) if not has_value]
    if variables:
        session.run([variable.initializer for variable in variables])
    tables = tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
    if tables:
        session.run(tables)


def create_initialized_session(session_creator: SessionCreator, session_init: SessionInit) -> tf.Session:
    """Return a session on the current default graph, made by the creator, whose variables all have values.

    Without a ``session_init`` that restores them, the values are those of the initialisers, which is a warning.

    Raises:
        DeviceError: The session lacks a device of the graph. A session that was made here is closed on errors.
        CheckpointError: The checkpoint is missing, damaged or of other shapes.
    """
    untrained = [variable.op.name for variable in tf.trainable_variables()]
    if untrained and type(session_init) is JustCurrentSession and makes_new_sessions(session_creator):
        names = ", ".join(untrained[:3]) + (", ..." if len(untrained) > 3 else "")
        logger.warning(
            f"PredictConfig got no session_init: {len(untrained)} trainable variable(s) have initial values, mostly "
            f"random ones ({names}); use session_init=SmartInit(path of a checkpoint)"
        )
    session = session_creator.create_session()
    try:
        # A creator of the user's own need not know which devices the graph asks for.
        check_session_devices(session, tf.get_default_graph())
        initialize_variables(session, is_new=makes_new_sessions(session_creator))
        session_init.init(session)
    except BaseException:
        if not isinstance(session_creator, ReuseSessionCreator):
            session.close()
        raise
    return session
