"""How a new session's variables get their first values, beyond their initialisers: the contract.

A ``SessionInit`` works in two phases. ``_setup_graph`` reads and checks everything and changes nothing; ``_run_init``
then assigns. A chain runs the first phase of all its members before the second of any, so an error leaves the session
as it was.
"""

from collections.abc import Iterable
from typing import Any

from tpack.errors import ConfigError


class SessionInit:
    """Give variables of a session their first values.

    ``init`` is called once the initialisers have run, and before training. Subclasses override the two phases.
    """

    def init(self, sess: Any) -> None:
        """Read and check, then change the session.

        Args:
            sess: a session whose variables are initialised; its graph may be finalized.
        """
        with sess.graph.as_default():
            self._setup_graph()
            self._run_init(sess)

    def _setup_graph(self) -> None:
        """Read and check what will be assigned to the variables of the current graph, and change nothing."""

    def _run_init(self, sess: Any) -> None:
        """Change the session's variables."""


class JustCurrentSession(SessionInit):
    """Leave the session as its initialisers made it."""


class ChainInit(SessionInit):
    """Several initialisations in order; for a variable that several of them know, the last one counts.

    Args:
        sess_inits: the members.

    Raises:
        ConfigError: A member is not a SessionInit.
    """

    def __init__(self, sess_inits: Iterable[SessionInit]) -> None:
        self.inits = list(sess_inits)
        for member in self.inits:
            if not isinstance(member, SessionInit):
                raise ConfigError(f"ChainInit wants SessionInit objects, got {member!r}; SmartInit takes other things")

    def _setup_graph(self) -> None:
        for member in self.inits:
            member._setup_graph()

    def _run_init(self, sess: Any) -> None:
        for member in self.inits:
            member._run_init(sess)
