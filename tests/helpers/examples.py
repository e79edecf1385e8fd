"""Import the examples as they import each other: by their names, from their own folder."""

import importlib
import sys
from typing import Any

from tests.helpers.source import ROOT

FOLDER = ROOT / "examples"


def load_example(name: str, folder: str = "") -> Any:
    """Return the module of an example.

    Args:
        name: of the file, without its ending.
        folder: where it is below that of the examples.
    """
    path = str(FOLDER / folder)
    sys.path.insert(0, path)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(path)
