"""How the session comes to be: session creators, each an object with one method ``create_session()``.

A session creator is the place to change what kind of session a trainer uses: another configuration, a cluster's target,
a debugging wrapper around the session.
"""

from collections.abc import Callable
from typing import Any, Protocol

import tensorflow.compat.v1 as tf

from tpack.errors import WrongTypeError
from tpack.tower.devices import check_session_devices, provide_cpu_devices
from tpack.utils.argument_types import check_arguments
from tpack.utils.checks import check_function, check_number, check_text, owner_name, shown


class SessionCreator(Protocol):
    """What makes a session: one of those below, TensorFlow's, or an object of the user's own."""

    def create_session(self) -> tf.Session:
        """Return a session on the current default graph."""


def check_session_creator(owner: object, session_creator: Any) -> Any:
    """Return an argument that makes sessions.

    Args:
        owner: whose argument it is.
        session_creator: what came.

    Raises:
        WrongTypeError: It has no function ``create_session``.
    """
    create = getattr(session_creator, "create_session", None)
    if isinstance(session_creator, type) or not callable(create):
        raise WrongTypeError(
            f"{owner_name(owner)} got session_creator={shown(session_creator)}: wanted an object with create_session, "
            "such as NewSessionCreator()"
        )
    return session_creator


@check_arguments
class NewSessionCreator(tf.train.SessionCreator):
    """Create a session on the current default graph that has every device the graph asks for.

    The configuration is copied when the session is created. Its number of CPU devices is raised to what the graph's
    operations need, and never lowered. Where there are several, they share the cores: see
    `tpack.tower.devices.provide_cpu_devices`.

    Args:
        target: the address of a TensorFlow server; empty for a session in this process.
        config: a ConfigProto; None means ``get_default_sess_config()``.

    Raises:
        ConfigError: ``config`` is not a ConfigProto.
    """

    def __init__(self, target: str = "", config: tf.ConfigProto | None = None) -> None:
        self.target = target if target == "" else check_text(self, "target", target)
        self.config = get_default_sess_config() if config is None else config

    def create_session(self) -> tf.Session:
        """Return the new session.

        Raises:
            DeviceError: The graph asks for a device that the session lacks. No session stays open.
        """
        graph = tf.get_default_graph()
        config = tf.ConfigProto()
        config.CopyFrom(self.config)
        provide_cpu_devices(config, graph)
        session = tf.Session(self.target, graph=graph, config=config)
        try:
            check_session_devices(session, graph)
        except BaseException:
            session.close()
            raise
        return session


@check_arguments
class ReuseSessionCreator(tf.train.SessionCreator):
    """Give out a session that exists already.

    Args:
        sess: the session.

    Raises:
        WrongTypeError: It is none.
    """

    def __init__(self, sess: tf.Session) -> None:
        # A wrapper of a session, such as that of a debugger, need not be one.
        check_function(self, "sess", getattr(sess, "run", sess), "a session")
        self.sess = sess

    def create_session(self) -> tf.Session:
        """Return the session that was given."""
        return self.sess


@check_arguments
class SessionCreatorAdapter(tf.train.SessionCreator):
    """Pass the session of another creator through a function.

    Args:
        session_creator: any session creator.
        func: ``func(session) -> session``, for example one that wraps it.

    Raises:
        WrongTypeError: One of them is something else.

    Example:
        SessionCreatorAdapter(NewSessionCreator(), lambda sess: LocalCLIDebugWrapperSession(sess))
    """

    def __init__(self, session_creator: SessionCreator, func: Callable[[tf.Session], tf.Session]) -> None:
        self.session_creator = check_session_creator(self, session_creator)
        self.func = func

    def create_session(self) -> tf.Session:
        """Return ``func`` of the other creator's session."""
        return self.func(self.session_creator.create_session())


@check_arguments
def get_default_sess_config(mem_fraction: float = 0.99) -> tf.ConfigProto:
    """Return a new ConfigProto: soft placement, and GPU memory that grows up to a fraction of what there is.

    Soft placement is needed for operations without a GPU kernel. It never moves a tower, since the session creator
    checks that every device that the graph asks for exists.

    Args:
        mem_fraction: the share of each GPU's memory that this process may use.

    Raises:
        ConfigError: ``mem_fraction`` is not in (0, 1].
    """
    check_number("get_default_sess_config", "mem_fraction", mem_fraction, 0, 1, is_low_allowed=False)
    config = tf.ConfigProto(allow_soft_placement=True)
    config.gpu_options.per_process_gpu_memory_fraction = mem_fraction
    config.gpu_options.allow_growth = True
    return config


class ServerSessionCreator(tf.train.SessionCreator):
    """Create sessions on a server; the chief initialises the variables, and the others wait until it has.

    Args:
        server: a ``tf.train.Server``. The chief is task 0 of its job, unless that is called ``"ps"``.

    Raises:
        WrongTypeError: ``server`` is something else.
    """

    def __init__(self, server: tf.train.Server) -> None:
        if not hasattr(server, "server_def"):
            raise WrongTypeError(f"{type(self).__name__} got server={shown(server)}: wanted a tf.train.Server")
        self._server = server

    @property
    def is_chief(self) -> bool:
        """Whether this task initialises the variables."""
        definition = self._server.server_def
        return bool(definition.task_index == 0 and definition.job_name != "ps")

    def create_session(self) -> tf.Session:
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


def get_distributed_session_creator(server: tf.train.Server) -> ServerSessionCreator:
    """Return a session creator for one task of a cluster.

    Args:
        server: the task's ``tf.train.Server``.
    """
    return ServerSessionCreator(server)
