"""Files as a release wrote them, for the test that newer code reads them: ``tests/data/<release>``.

    python -m tools.release_files RELEASE COMMIT

The code of the commit, in a worktree of its own, trains two towers for two epochs that end in the middle of a pass over
shuffled data, stores points, and then goes on in a copy for two epochs more. What is kept is the first half of the run,
the stored points, the weights at the end and the public names: whoever restores the variables, the optimizer's state,
the step and the position in the data as that release meant them comes to the same weights.
"""

import importlib
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

import tpack
from tpack import logger
from tpack.callbacks import MinSaver, ModelSaver
from tpack.dataflow import BatchData, DataFromList, NumpySerializer, TFRecordSerializer
from tpack.tfutils.varmanip import load_checkpoint_vars

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
STEPS, EPOCHS = 3, 2
# Event files are TensorFlow's own format, and locks and caches are no part of a run.
DROPPED = ("events.out.*", "*.lock", "*.meta", "graph*", "log.log")


class LineModel(tpack.ModelDesc):
    """Four features, two targets, a dense layer and a table of which a step reads rows."""

    def inputs(self) -> list[tf.TensorSpec]:
        """Return features and their row of the table."""
        return [tf.TensorSpec([None, 4], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "row")]

    def build_graph(self, x: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        """Return the squared distance from a fixed map of the features."""
        kernel = tf.get_variable("dense/W", [4, 2], initializer=tf.constant_initializer(0.1))
        bias = tf.get_variable("dense/b", [2], initializer=tf.zeros_initializer())
        table = tf.get_variable("table", [6, 2], initializer=tf.zeros_initializer())
        wanted = tf.stack([tf.reduce_sum(x, 1), x[:, 0] - x[:, 1]], axis=1)
        distance = tf.matmul(x, kernel) + bias + tf.gather(table, row) - wanted
        return tf.reduce_mean(tf.square(distance), name="cost")

    def optimizer(self) -> tf.train.Optimizer:
        """Return an optimizer with slots and powers of its own."""
        return tf.train.AdamOptimizer(0.05)


def points() -> list[list[np.ndarray]]:
    """Return 32 points, the same on any machine."""
    grid = np.arange(32 * 4).reshape(32, 4) * 37 % 64
    return [[x.astype(np.float32) / 64, np.int32(number % 6)] for number, x in enumerate(grid)]


def train(directory: Path, max_epoch: int) -> dict[str, np.ndarray]:
    """Train, or go on, in a directory of the log.

    Args:
        directory: With the files of a run, or new.
        max_epoch: The last epoch, of ``STEPS`` steps of two towers.

    Returns:
        All that the last checkpoint has, by name.
    """
    logger.set_logger_dir(str(directory), action="k")
    config = tpack.AutoResumeTrainConfig(
        model=LineModel(),
        dataflow=BatchData(DataFromList(points(), shuffle=True), 5),
        callbacks=[ModelSaver(), MinSaver("cost")],
        steps_per_epoch=STEPS,
        max_epoch=max_epoch,
        seed=11,
    )
    tpack.launch_train_with_config(config, tpack.SyncMultiGPUTrainerReplicated(2))
    return dict(load_checkpoint_vars(str(directory / f"model-{STEPS * max_epoch}")))


def public_names() -> list[str]:
    """Return a line for each package with its public names; those of TensorFlow 1 have a table of their own."""
    packages = [found.name for found in pkgutil.walk_packages(tpack.__path__, "tpack.") if found.ispkg]
    chosen = ["tpack", *(name for name in packages if not f"{name}.".startswith("tpack.tf1."))]
    listed = {name: sorted(importlib.import_module(name).__all__) for name in chosen}
    return [f"{package}: {' '.join(names)}\n" for package, names in listed.items()]


def write(directory: Path) -> None:
    """Write the files of the tpack that is imported, its version among them."""
    run = directory / "run"
    train(run, EPOCHS)
    shutil.copytree(run, directory / "copy")
    with tf.Graph().as_default():
        np.savez(directory / "end.npz", **train(directory / "copy", 2 * EPOCHS))
    logger.set_logger_dir(str(directory / "log"), action="k")
    TFRecordSerializer.save(DataFromList(points(), shuffle=False), str(directory / "points.tfrecord"))
    NumpySerializer.save(DataFromList(points(), shuffle=False), str(directory / "points.npz"))
    (directory / "public_names.txt").write_text("".join(public_names()), encoding="utf-8")
    versions = {"tpack": tpack.__version__, "tensorflow": tf.__version__, "python": sys.version.split()[0]}
    (directory / "versions.json").write_text(json.dumps(versions) + "\n", encoding="utf-8")


def main() -> None:
    """Write the files of a commit."""
    release, commit = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        tree, made = Path(name) / "tree", Path(name) / "made"
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), commit], cwd=ROOT, check=True)
        try:
            environment = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{ROOT}"}
            program = f"from tools.release_files import write; from pathlib import Path; write(Path({str(made)!r}))"
            made.mkdir()
            subprocess.run([sys.executable, "-c", program], cwd=made, env=environment, check=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
        ignored = shutil.ignore_patterns(*DROPPED, "copy", "log")
        shutil.rmtree(DATA / release, ignore_errors=True)
        shutil.copytree(made, DATA / release, ignore=ignored)


if __name__ == "__main__":
    main()
