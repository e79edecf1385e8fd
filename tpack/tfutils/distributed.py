"""Sessions on a server of a cluster, in which one task gives the variables their first values."""

from typing import Any

import tensorflow.compat.v1 as tf


class ServerSessionCreator(tf.train.SessionCreator):
    """Create sessions on a server; the chief initialises the variables, and the others wait until it has.

    Args:
        server: a ``tf.train.Server``. The chief is task 0 of its job, unless that is called ``"ps"``.
    """

    def __init__(self, server: Any) -> None:
        self._server = server

    @property
    def is_chief(self) -> bool:
        """Whether this task initialises the variables."""
        definition = self._server.server_def
        return bool(definition.task_index == 0 and definition.job_name != "ps")

    def create_session(self) -> Any:
        """Return a session on the current default graph, all of whose variables have values."""
        manager = tf.train.SessionManager(
            local_init_op=tf.local_variables_initializer(),
            ready_op=tf.report_uninitialized_variables(),
            ready_for_local_init_op=tf.report_uninitialized_variables(tf.global_variables()),
            graph=tf.get_default_graph(),
            recovery_wait_secs=1,
        )
        if self.is_chief:
            return manager.prepare_session(self._server.target, init_op=tf.global_variables_initializer())
        return manager.wait_for_session(self._server.target)


def get_distributed_session_creator(server: Any) -> ServerSessionCreator:
    """Return a session creator for one task of a cluster.

    Args:
        server: the task's ``tf.train.Server``.
    """
    return ServerSessionCreator(server)
