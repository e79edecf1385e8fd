"""Optional dependencies: imported when they are first needed, with an error that says what to install."""

import importlib
from types import ModuleType

from tpack.errors import DependencyError


def import_optional(module: str, extra: str) -> ModuleType:
    """Return a module of a package that tpack can do without.

    Args:
        module: its full name, such as ``"cv2"``.
        extra: the extra of tpack that installs it, such as ``"vision"``.

    Raises:
        DependencyError: It cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DependencyError(
            f"this needs the package {module!r}, which cannot be imported ({error}): "
            f"install it with \"pip install 'tpack[{extra}]'\""
        ) from error
