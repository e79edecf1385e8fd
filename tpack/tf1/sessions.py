"""Sessions whose fetches of variables come after the updates of the same run, as in TensorFlow 1.

`tpack.estimator.variable_fetches` has the rules. The classes and functions are those of TensorFlow, with its arguments;
each session that they make is one of these.
"""

import functools
import inspect
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.estimator.variable_fetches import InPlaceOf, ReadsAfterUpdates, Session, adopt

__all__ = [
    "ChiefSessionCreator",
    "InteractiveSession",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "Session",
    "SessionManager",
    "SingularMonitoredSession",
    "Supervisor",
    "WorkerSessionCreator",
]


class InteractiveSession(ReadsAfterUpdates, tf.InteractiveSession, metaclass=InPlaceOf):
    """``tf.InteractiveSession``, in which a fetched variable has its value after the updates of the run."""

    _in_place_of = tf.InteractiveSession


class SessionManager(tf.train.SessionManager):
    """``tf.train.SessionManager``, which makes a `Session`."""

    def prepare_session(self, *args: Any, **kwargs: Any) -> tf.Session:
        """Return a session with values for all variables."""
        return adopt(super().prepare_session(*args, **kwargs))

    def recover_session(self, *args: Any, **kwargs: Any) -> tuple[tf.Session, bool]:
        """Return a session, and whether its variables have values."""
        session, has_values = super().recover_session(*args, **kwargs)
        return adopt(session), has_values

    def wait_for_session(self, *args: Any, **kwargs: Any) -> tf.Session:
        """Return a session whose variables another process has given values."""
        return adopt(super().wait_for_session(*args, **kwargs))


class Supervisor(tf.train.Supervisor):
    """``tf.train.Supervisor``, which makes a `Session`."""

    def prepare_or_wait_for_session(self, *args: Any, **kwargs: Any) -> tf.Session:
        """Return a session with values for all variables."""
        return adopt(super().prepare_or_wait_for_session(*args, **kwargs))


class ChiefSessionCreator(tf.train.ChiefSessionCreator):
    """``tf.train.ChiefSessionCreator``, which makes a `Session`."""

    def create_session(self) -> tf.Session:
        """Return a session with values for all variables."""
        return adopt(super().create_session())


class WorkerSessionCreator(tf.train.WorkerSessionCreator):
    """``tf.train.WorkerSessionCreator``, which makes a `Session`."""

    def create_session(self) -> tf.Session:
        """Return a session whose variables the chief has given values."""
        return adopt(super().create_session())


class _Adoption(tf.train.SessionRunHook):
    """Makes each session of a monitored session a `Session`, those after a failure too."""

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Adopt the session."""
        adopt(session)


class MonitoredSession(tf.train.MonitoredSession, metaclass=InPlaceOf):
    """``tf.train.MonitoredSession`` around a `Session`."""

    _in_place_of = tf.train.MonitoredSession

    def __init__(self, session_creator: Any = None, hooks: Any = None, stop_grace_period_secs: float = 120) -> None:
        super().__init__(session_creator, [_Adoption(), *(hooks or ())], stop_grace_period_secs)


class SingularMonitoredSession(tf.train.SingularMonitoredSession, metaclass=InPlaceOf):
    """``tf.train.SingularMonitoredSession`` around a `Session`."""

    _in_place_of = tf.train.SingularMonitoredSession

    def __init__(self, hooks: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__([_Adoption(), *(hooks or ())], *args, **kwargs)


@functools.wraps(tf.train.MonitoredTrainingSession)
def MonitoredTrainingSession(*args: Any, **kwargs: Any) -> tf.train.MonitoredSession:  # noqa: N802 (TensorFlow's name)
    """Return ``tf.train.MonitoredTrainingSession`` around a `Session`."""
    bound = inspect.signature(tf.train.MonitoredTrainingSession).bind(*args, **kwargs)
    bound.arguments["hooks"] = [_Adoption(), *(bound.arguments.get("hooks") or ())]
    return tf.train.MonitoredTrainingSession(*bound.args, **bound.kwargs)
