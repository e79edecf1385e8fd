"""Before the first run: the order of sums, and the first values of a new session's variables."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.compat import fix_summation_order
from tpack.tfutils.sesscreate import ReuseSessionCreator, SessionCreator, makes_new_sessions
from tpack.tfutils.sessinit import SessionInit
from tpack.tower.devices import check_session_devices


def order_sums(graph: tf.Graph, session_creator: SessionCreator) -> None:
    """Give every sum in the graph a fixed order, so that a repeated run gives the same numbers.

    A user's session has usually run parts of the graph, which TensorFlow does not allow to change: its sums stay.

    Args:
        graph: the complete graph.
        session_creator: creates the session later.
    """
    if not isinstance(session_creator, ReuseSessionCreator):
        fix_summation_order(graph.get_operations())


def initialize_variables(session: tf.Session, *, except_for: Sequence[tf.Variable] = (), is_new: bool = False) -> None:
    """Run the initialisers of all variables without a value, and those of lookup tables.

    A user's session may hold trained variables, which stay. In a new session the question is left out: it takes an
    operation for each variable and a run that prepares the whole graph.

    Args:
        session: a session on the current default graph.
        except_for: variables that get their values in another way. Copies of a large model take long to fill with
            random numbers that are overwritten at once.
        is_new: whether no variable can have a value yet, as `makes_new_sessions` tells.
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
    """Return a session on the current default graph whose variables all have values.

    Args:
        session_creator: makes it.
        session_init: gives variables their values after their initialisers ran.

    Raises:
        DeviceError: The session lacks a device that the graph asks for.
        CheckpointError: What is to be restored is missing, damaged or of other shapes. A session that was made here
            does not stay open.
    """
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
