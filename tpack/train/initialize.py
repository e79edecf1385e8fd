"""Give a new session's variables their first values."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf


def initialize_variables(session: Any, *, except_for: Sequence[Any] = ()) -> None:
    """Run the initialisers of all variables that have no value yet, and those of lookup tables.

    A session that a user hands over may hold trained variables: they are left as they are.

    Args:
        session: a session on the current default graph.
        except_for: variables that get their values in another way. Copies of a large model take long to fill with
            random numbers that are overwritten at once.
    """
    excluded = {id(variable) for variable in except_for}
    variables = [v for v in (*tf.global_variables(), *tf.local_variables()) if id(v) not in excluded]
    if variables:
        with tf.name_scope("initialize"):
            is_set = session.run([tf.is_variable_initialized(variable) for variable in variables])
        missing = [variable for variable, has_value in zip(variables, is_set, strict=True) if not has_value]
        session.run([variable.initializer for variable in missing])
    tables = tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
    if tables:
        session.run(tables)
