"""The files of MATLAB, version 5, which some data sets are published in. Read by SciPy, which the extra brings."""

from typing import Any

from tpack.errors import InputError
from tpack.utils.optional import import_optional


def load_mat(path: str, *names: str) -> list[Any]:
    """Return variables of a file.

    Args:
        path: the file.
        *names: the variables.

    Raises:
        InputError: The file cannot be read, or lacks a variable.
    """
    scipy_io = import_optional("scipy.io", "examples")
    try:
        found = scipy_io.loadmat(path, variable_names=list(names))
    except Exception as error:
        # What SciPy raises on damaged files is of many kinds.
        raise InputError(f"{path} is no MATLAB file that can be read: {type(error).__name__}: {error}") from error
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(f"{path} has no variable {', '.join(missing)}: it is damaged or another file")
    return [found[name] for name in names]
