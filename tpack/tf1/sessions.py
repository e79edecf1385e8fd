"""Sessions whose fetches of variables come after the updates of the same run, as in TensorFlow 1.

`tpack.estimator.variable_fetches` has the rules. The classes and functions are those of TensorFlow, with its arguments;
each session that they make is one of these.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.estimator.variable_fetches import ReadRuns, Run, SplitRun, split_run
from tpack.step.fetch_plan import graph_element, is_composite

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

_MAX_KEPT = 256
"""How many sets of fetches a session remembers; a loop that makes new ones all the time starts again."""


class _InPlaceOf(type):
    """The type of a class that takes the place of one of TensorFlow, whose objects count as its own."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, vars(cls).get("_in_place_of", ())) or super().__instancecheck__(instance)


class _ReadsAfterUpdates:
    """The runs of these sessions."""

    def _do_run(
        self,
        handle: Any,
        target_list: Sequence[tf.Operation],
        fetch_list: Sequence[tf.Tensor],
        feed_dict: Mapping[Any, Any],
        options: Any,
        run_metadata: Any,
    ) -> Any:
        """Run tensors and operations; every run of TensorFlow's session gets here with its flat fetches."""
        run: Any = super()._do_run  # type: ignore[misc]
        parts = self._parts(target_list, fetch_list, feed_dict, is_partial=handle is not None)
        if parts is None:
            return run(handle, target_list, fetch_list, feed_dict, options, run_metadata)
        return parts.run(
            lambda fetches, targets: run(handle, targets, fetches, feed_dict, options, run_metadata), self._run_reads
        )

    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Callable[..., Any]:
        """Return a function that runs the fetches."""
        leaves = [] if is_composite(fetches) else tf.nest.flatten(fetches)
        elements = [graph_element(self.graph, leaf) for leaf in leaves if leaf is not None]  # type: ignore[attr-defined]
        tensors = [element for element in elements if isinstance(element, tf.Tensor)]
        targets = [element for element in elements if isinstance(element, tf.Operation)]
        if feed_list is None and not accept_options and split_run(tensors, targets) is not None:
            return functools.partial(self.run, fetches)  # type: ignore[attr-defined]
        made: Callable[..., Any] = super().make_callable(fetches, feed_list, accept_options)  # type: ignore[misc]
        return made

    def _parts(
        self,
        targets: Sequence[tf.Operation],
        fetches: Sequence[tf.Tensor],
        feeds: Mapping[Any, Any],
        *,
        is_partial: bool,
    ) -> SplitRun | None:
        kept = self.__dict__.setdefault("_parts_of_runs", {})
        key = (is_partial, *map(id, fetches), None, *map(id, targets), None, *[id(feed.deref()) for feed in feeds])
        if key not in kept:
            if len(kept) >= _MAX_KEPT:
                kept.clear()
            parts = split_run(fetches, targets, {feed.deref().name for feed in feeds}, is_partial=is_partial)
            # Ids are those of objects that live.
            kept[key] = (parts, fetches, targets, [feed.deref() for feed in feeds])
        return kept[key][0]

    @property
    def _run_reads(self) -> Run:
        """Runs reads of variables alone."""
        if self.sess_str:  # type: ignore[attr-defined]
            run: Any = super()._do_run  # type: ignore[misc]
            return lambda fetches, targets: run(None, targets, fetches, {}, None, None)
        reads: Run = vars(self).setdefault("_reads", ReadRuns(self))
        return reads


class Session(_ReadsAfterUpdates, tf.Session, metaclass=_InPlaceOf):
    """``tf.Session``, in which a fetched variable has its value after the updates of the run."""

    _in_place_of = tf.Session


class InteractiveSession(_ReadsAfterUpdates, tf.InteractiveSession, metaclass=_InPlaceOf):
    """``tf.InteractiveSession``, in which a fetched variable has its value after the updates of the run."""

    _in_place_of = tf.InteractiveSession


def adopt(session: Any) -> Any:
    """Make a session of TensorFlow's, which is returned, one of these; others stay as they are."""
    if type(session) is tf.Session:
        session.__class__ = Session
    return session


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


class MonitoredSession(tf.train.MonitoredSession, metaclass=_InPlaceOf):
    """``tf.train.MonitoredSession`` around a `Session`."""

    _in_place_of = tf.train.MonitoredSession

    def __init__(self, session_creator: Any = None, hooks: Any = None, stop_grace_period_secs: float = 120) -> None:
        super().__init__(session_creator, [_Adoption(), *(hooks or ())], stop_grace_period_secs)


class SingularMonitoredSession(tf.train.SingularMonitoredSession, metaclass=_InPlaceOf):
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
