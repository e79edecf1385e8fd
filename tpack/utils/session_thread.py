"""A thread that works with the session of the thread that started it."""

import sys
import threading
from typing import Any

from tpack.errors import ConfigError


class ShareSessionThread(threading.Thread):
    """Run with the default session of the thread that calls ``start``, and its graph, as the default ones.

    TensorFlow keeps a default session and a default graph for each thread.

    Args:
        th: a thread that is not started, whose ``run`` is run; None in subclasses, which override ``run_in_session``.
    """

    def __init__(self, th: threading.Thread | None = None) -> None:
        super().__init__()
        self._thread = th
        self._session: Any = None
        if th is not None:
            self.name = th.name
            self.daemon = th.daemon

    def start(self) -> None:
        """Start the thread.

        Raises:
            ConfigError: There is no default session.
        """
        # Who has a session has loaded TensorFlow; this module works without.
        tensorflow = sys.modules.get("tensorflow")
        self._session = tensorflow.compat.v1.get_default_session() if tensorflow is not None else None
        if self._session is None:
            raise ConfigError(f"the thread {self.name!r} is to share the default session, and there is none")
        super().start()

    def run(self) -> None:
        """Run in the session."""
        with self._session.graph.as_default(), self._session.as_default():
            self.run_in_session()

    def run_in_session(self) -> None:
        """Run the thread that was given."""
        if self._thread is None:
            raise NotImplementedError(f"{type(self).__name__} was given no thread and does not override run_in_session")
        self._thread.run()
