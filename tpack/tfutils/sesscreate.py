"""How the session comes to be: session creators, each an object with one method ``create_session()``.

A session creator is the place to change what kind of session a trainer uses: another configuration, a cluster's target,
a debugging wrapper around the session.
"""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils.sessconfig import get_default_sess_config
from tpack.tower.devices import check_session_devices, provide_cpu_devices


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

    def __init__(self, target: str = "", config: Any = None) -> None:
        if config is not None and not isinstance(config, tf.ConfigProto):
            raise ConfigError(f"wanted a tf.ConfigProto as config, got {type(config).__name__}")
        self.target = target
        self.config = get_default_sess_config() if config is None else config

    def create_session(self) -> Any:
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


class ReuseSessionCreator(tf.train.SessionCreator):
    """Give out a session that exists already.

    Args:
        sess: the session.
    """

    def __init__(self, sess: Any) -> None:
        self.sess = sess

    def create_session(self) -> Any:
        """Return the session that was given."""
        return self.sess


class SessionCreatorAdapter(tf.train.SessionCreator):
    """Pass the session of another creator through a function.

    Args:
        session_creator: any session creator.
        func: ``func(session) -> session``, for example one that wraps it.

    Example:
        SessionCreatorAdapter(NewSessionCreator(), lambda sess: LocalCLIDebugWrapperSession(sess))
    """

    def __init__(self, session_creator: Any, func: Callable[[Any], Any]) -> None:
        self.session_creator = session_creator
        self.func = func

    def create_session(self) -> Any:
        """Return ``func`` of the other creator's session."""
        return self.func(self.session_creator.create_session())
