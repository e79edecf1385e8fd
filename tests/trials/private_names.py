"""Take each private name of TensorFlow away in turn, and train three towers without it.

    python -m tests.trials.private_names [--names NAME...]

In a fork of a process that has loaded TensorFlow alone (`tests.helpers.without_names`). It trains as with all names, to
rounding, or ends by an error of tpack in one line that has the name. It prints a line for each, and ends with 1 if
another thing happens.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from tests.helpers import preloaded, without_names
from tpack.compat.private_names import FEATURES


def outcome(name: str, whole: dict[str, float]) -> tuple[str, bool]:
    """Return what happens without a name, and whether it is right."""
    done = preloaded.run(Path(without_names.__file__), [json.dumps([name]), "[]"])
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1]
        return last, "DependencyError" in last and name in last
    found = json.loads(done.stdout.splitlines()[-1])
    weights = found["weights"]
    is_equal = weights.keys() == whole.keys() and all(
        np.allclose(weights[key], value, rtol=1e-6, atol=0) for key, value in whole.items()
    )
    is_exact = weights == whole
    return (
        f"trains {'equally' if is_exact else 'to rounding' if is_equal else 'OTHERWISE'} {found['log'] or ''}",
        is_equal,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="+", default=sorted({name for each in FEATURES for name in each.names}))
    options = parser.parse_args()
    whole = preloaded.run(Path(without_names.__file__), ["[]", "[]"])
    weights = json.loads(whole.stdout.splitlines()[-1])["weights"]
    wrong = []
    for name in options.names:
        text, is_right = outcome(name, weights)
        print(f"{name}: {text}", flush=True)
        wrong += [] if is_right else [name]
    print(f"{len(options.names) - len(wrong)} of {len(options.names)} right; wrong: {wrong}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
