"""Features that few programs use together, in tiny trainings beside plain TensorFlow or numpy.

    python -m tests.trials.combinations [--only PART_OF_A_NAME] [--list]

Each combination trains a few steps in float64, where nothing but the order of sums may differ, and compares weights,
averages, statistics or exported values with an oracle that uses nothing of tpack. It prints a line for each, and ends
with 1 if one differs.
"""

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FunctionType

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tests.helpers.combined_training import working_in  # noqa: E402
from tests.trials import combinations_of_data, combinations_of_files, combinations_of_steps, combinations_of_workers  # noqa: E402

MODULES = (combinations_of_steps, combinations_of_data, combinations_of_files, combinations_of_workers)


def combinations() -> dict[str, Callable[[], None]]:
    """Return all combinations by name: the functions of the modules that take and return nothing."""
    return {
        name: function
        for module in MODULES
        for name, function in vars(module).items()
        if isinstance(function, FunctionType)
        and function.__module__ == module.__name__
        and function.__annotations__ == {"return": None}
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of a combination's name")
    parser.add_argument("--list", action="store_true", help="print the names alone")
    options = parser.parse_args()
    names = {name: function for name, function in combinations().items() if options.only in name}
    if options.list:
        print("\n".join(names))
        return 0
    different = [name for name, function in names.items() if not _is_equal(name, function)]
    print(f"{len(names)} combinations: {len(names) - len(different)} equal, {len(different)} not: {different}")
    return int(bool(different))


def _is_equal(name: str, function: Callable[[], None]) -> bool:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as directory, working_in(Path(directory)):
        try:
            function()
            found = "equal"
        except AssertionError as error:
            found = f"DIFFERENT: {' '.join(str(error).split())[-1000:]}"
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            found = f"RAISED {type(error).__name__}: {str(error)[:600]} ({place.filename}:{place.lineno})"
    print(f"{name}: {found} ({time.monotonic() - begin:.1f} s)", flush=True)
    return found == "equal"


if __name__ == "__main__":
    sys.exit(main())
