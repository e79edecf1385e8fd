"""Progress bars with the settings that suit a training run.

On a terminal a bar is redrawn twice a second. In a file or a pipe each drawing is a line that stays, so there is one a
minute.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from tpack.errors import ConfigError

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["get_tqdm", "get_tqdm_kwargs"]

# As tqdm's own, but always with steps a second, also below one.
_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"


def get_tqdm_kwargs(**kwargs: Any) -> dict[str, Any]:
    """Return the arguments for ``tqdm.tqdm``, the given ones over the defaults.

    The environment variable ``TPACK_PROGRESS_REFRESH``, read on each call, sets the seconds between two drawings.

    Raises:
        ConfigError: The environment variable is no positive number.
    """
    stream = kwargs.get("file") or sys.stderr
    is_terminal = stream is not None and stream.isatty()
    interval = _refresh_secs(0.5 if is_terminal else 60.0)
    defaults = {
        "dynamic_ncols": True,
        "bar_format": _BAR,
        "mininterval": interval,
        "maxinterval": max(10.0, interval),
    }
    return {**defaults, **kwargs}


def get_tqdm(*args: Any, **kwargs: Any) -> "tqdm":
    """Make a progress bar: ``tqdm.tqdm`` with the settings of ``get_tqdm_kwargs``."""
    # Imported here, since it takes longer to import than a data flow, and many processes never draw a bar.
    bar: tqdm = importlib.import_module("tqdm").tqdm(*args, **get_tqdm_kwargs(**kwargs))
    return bar


def _refresh_secs(default: float) -> float:
    """Return the seconds between two drawings, from the environment or the default."""
    text = os.environ.get("TPACK_PROGRESS_REFRESH")
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ConfigError(f"TPACK_PROGRESS_REFRESH={text!r}: wanted a positive number of seconds")
    return seconds
