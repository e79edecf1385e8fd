"""``tf.flags``: that of TensorFlow, but that scripts may define the flags that absl's logging has defined.

The import of TensorFlow imports ``absl.logging``, which defines ``log_dir``, ``verbosity`` and others. Under TensorFlow
before 1.14 those names were free, and scripts define them. A flag of a script takes the place of absl's; two of
scripts with one name are an error as ever.
"""

import functools
from collections.abc import Callable
from typing import Any

from absl.flags import FLAGS as _FLAGS
from absl.flags import disclaim_key_flags as _disclaim_key_flags
from tensorflow.compat.v1 import flags as _flags

from tpack.tf1.removed_names import missing_name

_LOGGING = "absl.logging"
# They take flags and names of flags, and no choice whether a flag may be replaced.
_PLAIN = ("DEFINE_alias", "DEFINE_flag")

# absl reads from the stack which module defines a flag; it is never this one.
_disclaim_key_flags()


def __getattr__(name: str) -> Any:
    """Return a name of TensorFlow's, and a function ``DEFINE_...`` as one that replaces flags of absl's logging."""
    if not hasattr(_flags, name):
        raise missing_name(__name__, name, dir(_flags))
    value = getattr(_flags, name)
    if name.startswith("DEFINE_") and name not in _PLAIN:
        value = globals()[name] = _replacing(value)
    return value


def __dir__() -> list[str]:
    """List the names of TensorFlow's."""
    return dir(_flags)


def _replacing(define: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that defines a flag in place of one that absl's logging has defined."""

    @functools.wraps(define)
    def call(*args: Any, **kwargs: Any) -> Any:
        name = args[0] if args else kwargs.get("name", kwargs.get("flag_name"))
        values = kwargs.get("flag_values", _FLAGS)
        if name not in values or values.find_module_defining_flag(name) != _LOGGING or "allow_override" in kwargs:
            return define(*args, **kwargs)
        holder = define(*args, **kwargs, allow_override=True)
        values[name].allow_override = False
        return holder

    return call
