"""Make a SessionInit out of whatever a person has: a path, arrays, several of them, or nothing."""

import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from tpack.errors import CheckpointError, ConfigError
from tpack.tfutils.restore import DictRestore, SaverRestore, SaverRestoreRelaxed
from tpack.tfutils.session_init import ChainInit, JustCurrentSession, SessionInit


def SmartInit(obj: Any, *, ignore_mismatch: bool = False) -> SessionInit:  # noqa: N802
    """Return the SessionInit that ``obj`` stands for.

    Args:
        obj: None or an empty string (keep the initial values), a checkpoint (prefix, file or directory), the path of an
            ``.npz`` file, a dict of arrays, a SessionInit, or a list of these.
        ignore_mismatch: cast and reshape where that is possible and skip what does not fit, with a warning, where it
            would be an error.

    Raises:
        ConfigError: It is none of these.
        CheckpointError: A file is missing or damaged.
    """
    if obj is None or (isinstance(obj, str) and not obj):
        return JustCurrentSession()
    if isinstance(obj, SessionInit):
        return obj
    if isinstance(obj, list | tuple):
        return ChainInit([SmartInit(item, ignore_mismatch=ignore_mismatch) for item in obj])
    if isinstance(obj, Mapping):
        return DictRestore(obj, ignore_mismatch=ignore_mismatch)
    if isinstance(obj, str | os.PathLike):
        return _from_path(os.path.expanduser(os.fspath(obj)), ignore_mismatch)
    raise ConfigError(
        "wanted the path of a checkpoint or of an .npz file, a dict, a SessionInit, a list of these or None, "
        f"got {obj!r:.100}"
    )


get_model_loader = SmartInit


def load_npz(path: str) -> dict[str, Any]:
    """Return the arrays in an ``.npz`` file by name; it is never unpickled.

    Raises:
        CheckpointError: The file is missing, damaged, no ``.npz`` file, or holds Python objects.
    """
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise CheckpointError(f"{path} holds one array without a name: wanted a file that numpy.savez wrote")
        with loaded as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"cannot read arrays from {path}: {error}") from error


def _from_path(path: str, ignore_mismatch: bool) -> SessionInit:
    if path.endswith(".npz"):
        restore = DictRestore(load_npz(path), ignore_mismatch=ignore_mismatch)
        restore.source = path
        return restore
    return SaverRestoreRelaxed(path) if ignore_mismatch else SaverRestore(path)
