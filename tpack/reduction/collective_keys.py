"""The integers by which TensorFlow's collective operations find their partners.

Every set of devices has a group key, and every tensor that is reduced an instance key. TensorFlow keeps both for as
long as the session or the server lives and fails when a key comes again with other devices or another shape, so keys
are handed out once in a process. Processes that build the same graphs in the same order agree on their keys.
"""

import itertools
import threading
from collections.abc import Iterable

_FIRST_KEY = 1_000_000
"""Far above the keys that ``tf.distribute`` starts from, so that both can be used in one server."""


class CollectiveKeys:
    """Hand out group and instance keys; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[frozenset[str], int] = {}
        self._instances = itertools.count(_FIRST_KEY)

    def group_key(self, devices: Iterable[str]) -> int:
        """Return the key of a set of devices, the same one each time."""
        with self._lock:
            return self._groups.setdefault(frozenset(devices), _FIRST_KEY + len(self._groups))

    def next_instance_key(self) -> int:
        """Return a key that was not handed out before."""
        with self._lock:
            return next(self._instances)


PROCESS_KEYS = CollectiveKeys()
"""The keys of this process. Collective operations are matched process-wide, hence the one instance."""
