"""Hold the layers of `tpack.tf1` to those of the real TensorFlow 1.15, and load the checkpoints that it wrote.

    python -m tests.trials.tensorflow_1_layers PYTHON_OF_1_15

The models are those of `tests.helpers.tf1_layer_cases`. TensorFlow 1.15 builds each, writes a checkpoint, and computes
outputs, gradients, losses and updates; tpack builds it too, loads the checkpoint and has to compute the same, under the
same names of variables. What 1.15 cannot run on this machine is named, as is what it refuses and tpack does not.
"""

import sys
import tempfile
from collections import Counter

import tpack.tf1 as tf
from tests.helpers import tensorflow_1, tf1_layer_cases, tf1_oracle
from tests.helpers.source import ROOT

TOLERANCE = 2e-5
# Its kernels for 16 bits round after each step of a sum.
TOLERANCE_OF_16_BITS = 1e-2


def run_original(python: str, folder: str) -> dict[str, tf1_oracle.Result]:
    """Run all cases in TensorFlow 1.15 and return the results."""
    command = [python, "-W", "ignore", tf1_oracle.__file__, tf1_layer_cases.__file__, folder, "--save"]
    tensorflow_1.run(command, path=str(ROOT))
    return tf1_oracle.read_results(folder)


def compare(name: str, wanted: tf1_oracle.Result, checkpoint: str) -> str:
    """Return what came of one case."""
    case = tf1_layer_cases.CASES[name]
    if wanted.error and wanted.error[0] == tf1_oracle.CANNOT_RUN:
        return "1.15 cannot run it"
    got = tf1_oracle.run_case(tf, case)
    if wanted.error and not got.error:
        return "refused by 1.15 alone"
    if not wanted.error and not got.error:
        got = tf1_oracle.run_case(tf, case, restore_from=checkpoint)
    # What its ``tf.cond`` notes for itself; that of TensorFlow 2 notes nothing.
    wanted.collections.pop("cond_context", None)
    is_narrow = any(dtype in ("bfloat16", "float16") for _, dtype, _ in wanted.outputs)
    tolerance = TOLERANCE_OF_16_BITS if is_narrow else TOLERANCE
    try:
        tf1_oracle.assert_same(got, wanted, tolerance=tolerance, names=False)
    except AssertionError as error:
        return f"DIFFERENT: {error}"
    return "both refuse" if wanted.error else "equal"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        results = run_original(sys.argv[1], folder)
        outcomes = {
            name: compare(name, result, f"{folder}/{index}") for index, (name, result) in enumerate(results.items())
        }
    for name, outcome in outcomes.items():
        if outcome not in ("equal", "both refuse"):
            print(f"{name}: {outcome}")
    print(dict(Counter(outcome.partition(":")[0] for outcome in outcomes.values())))
    sys.exit(any(outcome.startswith("DIFFERENT") for outcome in outcomes.values()))


if __name__ == "__main__":
    main()
