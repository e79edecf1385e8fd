"""Horovod's own examples of TensorFlow 1 on `tpack.horovod`, from a checkout of Horovod.

    python -m tests.trials.horovod_examples FOLDER [-n 2] [--only NAME ...]

Each is copied, goes through ``tpack migrate``, and runs in workers that ``tpack launch`` starts, for fewer steps and
with made data in place of downloads; ``EXAMPLES`` has all changes.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_DATA = '''
import zipfile

import numpy as np
from sklearn.datasets import load_digits


def digits():
    """Return scikit-learn's digits in the form of MNIST."""
    found = load_digits()
    images = np.zeros((len(found.images), 28, 28), np.uint8)
    images[:, 2:26, 2:26] = np.kron(found.images * 15, np.ones((3, 3))).astype(np.uint8)
    labels = found.target.astype(np.uint8)
    return (images[:1500], labels[:1500]), (images[1500:], labels[1500:])


def text(filename):
    """Write words whose neighbours are near in number."""
    rng = np.random.RandomState(0)
    words = np.clip(np.cumsum(rng.randint(-2, 3, 60000)) % 300, 0, 299)
    with zipfile.ZipFile(filename, "w") as file:
        file.writestr("text8", " ".join(f"w{number}" for number in words))
    return filename
'''
_STEPS = 60


@dataclass(frozen=True)
class Example:
    """An example, and what is changed in it: (pattern, replacement) pairs.

    ``legacy_keras`` says that it needs ``tf_keras``, Keras 2, whose models run in sessions.
    """

    name: str
    changes: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...] = ()
    prints: str = ""
    legacy_keras: bool = False


_DIGITS = (r"keras\.datasets\.mnist\.load_data\('MNIST-data-%d' % hvd\.rank\(\)\)", "__import__('made_data').digits()")
EXAMPLES = (
    Example("tensorflow_mnist", (_DIGITS, (r"\b20000\b", str(_STEPS))), prints="loss"),
    Example("tensorflow_mnist", (_DIGITS, (r"\b20000\b", str(_STEPS))), ("--use-adasum",), prints="loss"),
    Example("tensorflow_mnist", (_DIGITS, (r"\b20000\b", str(_STEPS))), ("--gradient-predivide-factor", "2.0"), "loss"),
    Example("tensorflow_mnist_estimator", (_DIGITS, (r"\b20000\b", str(_STEPS))), prints="accuracy"),
    Example(
        "tensorflow_word2vec",
        (
            (r"^filename = maybe_download.*$", "filename = __import__('made_data').text('text8-%d.zip' % hvd.rank())"),
            (r"\b100000\b", "4000"),
            (r"\b50000\b", "300"),
            (r"\b2000\b", "500"),
        ),
        prints="Average loss",
    ),
    Example(
        "tensorflow_synthetic_benchmark",
        # It makes a model of Keras before anything of TensorFlow 1.
        ((r"^import tensorflow as tf$", "import tensorflow as tf\ntf.compat.v1.disable_eager_execution()"),),
        ("--no-cuda", "--model", "MobileNetV2", "--batch-size", "2", "--num-iters", "2", "--num-batches-per-iter", "3"),
        "Total img/sec",
        legacy_keras=True,
    ),
)


def run(example: Example, folder: Path, workers: int, seconds: float) -> Iterator[str]:
    """Run an example, and yield its last lines of interest and the outcome."""
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / f"{example.name}.py"
        text = (folder / "examples" / "tensorflow" / script.name).read_text()
        for pattern, replacement in example.changes:
            text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
            if not count:
                raise LookupError(f"{example.name} has nothing like {pattern!r}")
        script.write_text(text)
        (Path(directory) / "made_data.py").write_text(_DATA)
        migrate = [sys.executable, "-m", "tpack", "migrate", script.name]
        subprocess.run(migrate, cwd=directory, check=False, capture_output=True)
        launch = [sys.executable, "-m", "tpack", "launch", "-n", str(workers)]
        launch += ["--env", "TF_USE_LEGACY_KERAS=1"] if example.legacy_keras else []
        launch += [script.name, *example.arguments]
        begin = time.monotonic()
        ended = subprocess.run(
            launch,
            cwd=directory,
            timeout=seconds,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        printed = ended.stdout.splitlines()
        lines = [line for line in printed if example.prints in line and line.startswith("[0]")]
        yield from (lines[:1] + lines[-1:] if lines else printed[-25:])
        outcome = "ran" if ended.returncode == 0 and lines else f"failed with {ended.returncode}"
        yield f"{' '.join([example.name, *example.arguments])}: {outcome} in {time.monotonic() - begin:.0f} s"


def main() -> int:
    """Run all examples, and print what came of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-n", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=900)
    given = parser.parse_args()
    has_failed = False
    for example in EXAMPLES:
        if given.only and example.name not in given.only:
            continue
        for line in run(example, given.folder, given.n, given.seconds):
            print(line, flush=True)
            has_failed |= ": failed with" in line
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
