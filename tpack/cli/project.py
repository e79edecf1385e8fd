"""``tpack new`` and ``tpack train``: a directory with a model, data, settings and a test, and how it is trained.

The contract of a project is two names in one file: ``CONFIG``, a dict of settings, and ``train_arguments(config)``,
which returns the arguments of `TrainConfig` as a dict. Trainer, number of towers and log directory are options.
"""

import argparse
import ast
import copy
import importlib
import os
import runpy
import sys
from collections.abc import Sequence
from typing import Any

from tpack.errors import ConfigError

_TRAINERS = {
    "simple": "SimpleTrainer",
    "replicated": "SyncMultiGPUTrainerReplicated",
    "parameter-server": "SyncMultiGPUTrainerParameterServer",
    "async": "AsyncMultiGPUTrainer",
}

_PROJECT = '''"""A project that `tpack train project.py` trains: put your model and your data in the places of these."""

import numpy as np
import tensorflow.compat.v1 as tf

from tpack import BatchData, DataFromArrays, InferenceRunner, ModelDesc, ModelSaver, ScalarStats

# What `tpack train project.py --set model.width=64` changes.
CONFIG = {
    "model": {"width": 32, "learning_rate": 0.01},
    "train": {"batch_size": 64, "max_epoch": 10, "points": 2000, "seed": 0},
}


class Model(ModelDesc):
    """Tells whether a point of the plane is nearer than 1 to the origin."""

    def __init__(self, width, learning_rate):
        self.width = width
        self.learning_rate = learning_rate

    def inputs(self):
        return [tf.TensorSpec([None, 2], tf.float32, "point"), tf.TensorSpec([None], tf.float32, "is_inside")]

    def build_graph(self, point, is_inside):
        hidden = tf.nn.relu(self.layer("hidden", point, self.width))  # [batch, width]
        logits = tf.squeeze(self.layer("logits", hidden, 1), axis=1)  # [batch]
        tf.sigmoid(logits, name="probability")
        tf.cast(tf.equal(logits > 0, is_inside > 0.5), tf.float32, name="accuracy")
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=is_inside, logits=logits), name="cost")

    def layer(self, name, values, size):
        with tf.variable_scope(name):
            weights = tf.get_variable("W", [values.shape[1], size], initializer=tf.initializers.he_normal())
            return tf.matmul(values, weights) + tf.get_variable("b", [size], initializer=tf.zeros_initializer())

    def optimizer(self):
        return tf.train.AdamOptimizer(self.learning_rate)


def make_data(num_points, seed):
    """Return points, and whether each is inside of the circle."""
    points = np.random.default_rng(seed).uniform(-1.5, 1.5, [num_points, 2]).astype("float32")
    return points, (np.linalg.norm(points, axis=1) < 1).astype("float32")


def train_arguments(config):
    """Return the arguments of tpack.TrainConfig."""
    train = config["train"]
    validation = BatchData(DataFromArrays(make_data(500, train["seed"] + 1)), 500)
    return {
        "model": Model(**config["model"]),
        "dataflow": make_data(train["points"], train["seed"]),
        "batch_size": train["batch_size"],
        "max_epoch": train["max_epoch"],
        "callbacks": [ModelSaver(), InferenceRunner(validation, ScalarStats("accuracy"))],
    }
'''

_TEST = '''"""Run by pytest: the data are what the model takes."""

from project import CONFIG, make_data, train_arguments


def test_data_are_what_the_model_takes():
    data = make_data(10, seed=0)
    specs = train_arguments(CONFIG)["model"].inputs()
    assert [part.dtype for part in data] == [spec.dtype.as_numpy_dtype for spec in specs]
    assert all(spec.shape.is_compatible_with(part.shape) for part, spec in zip(data, specs))
'''

_FILES = {"project.py": _PROJECT, "test_project.py": _TEST}


def add_new_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe ``tpack new``, and add its arguments to its parser."""
    parser.description = "Make a project that trains."
    parser.add_argument("directory", help="where; it must be new or empty")
    parser.set_defaults(run=run_new)


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe ``tpack train``, and add its arguments to its parser."""
    parser.description = "Train a file with CONFIG and train_arguments(config), such as the one that `tpack new` makes."
    _add_project(parser)
    parser.add_argument("--trainer", choices=_TRAINERS, help="default: simple, or replicated with several towers")
    parser.add_argument("--towers", type=int, default=1, help="how many (default: %(default)s)")
    parser.add_argument("--logdir", help="default: train_log/NAME_OF_THE_FILE; one that exists is moved aside")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in the log directory")
    parser.set_defaults(run=run_train, loads_tensorflow=True)


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="the file of the project")
    parser.add_argument(
        "--set", action="append", default=[], dest="settings", metavar="A.B=C", help="change CONFIG['A']['B'] to C"
    )


def run_new(options: argparse.Namespace) -> str:
    """Write the files of a project.

    Args:
        options: those that `add_new_arguments` defines.

    Returns:
        What to do next, as text.

    Raises:
        ConfigError: The directory has content.
    """
    directory = options.directory
    if os.path.exists(directory) and (not os.path.isdir(directory) or os.listdir(directory)):
        raise ConfigError(f"{directory!r} is there and not empty: wanted a new directory")
    os.makedirs(directory, exist_ok=True)
    for name, text in _FILES.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)
    return f"{', '.join(_FILES)} are in {directory}. Next:\n    cd {directory}\n    tpack train project.py\n"


def run_train(options: argparse.Namespace) -> int:
    """Train a project.

    Args:
        options: those that `add_train_arguments` defines.

    Returns:
        The exit code, 0.

    Raises:
        ConfigError: The file is no project, a setting is not in its ``CONFIG``, or the options do not go together.
    """
    if options.trainer == "simple" and options.towers != 1:
        raise ConfigError(f"the simple trainer has one tower, got --towers {options.towers}")
    names = _load(options.file)
    config = with_settings(names["CONFIG"], options.settings)
    name = os.path.splitext(os.path.basename(options.file))[0]
    importlib.import_module("tpack.utils.logger").set_logger_dir(
        options.logdir or os.path.join("train_log", name), "k" if options.resume else "b"
    )
    arguments = names["train_arguments"](config)
    if not isinstance(arguments, dict):
        raise ConfigError(f"train_arguments of {options.file!r} must return a dict, got {type(arguments).__name__}")
    resuming = importlib.import_module("tpack.train.resume")
    make = (
        resuming.AutoResumeTrainConfig if options.resume else importlib.import_module("tpack.train.config").TrainConfig
    )
    kind = options.trainer or ("simple" if options.towers == 1 else "replicated")
    trainer = getattr(importlib.import_module("tpack.train.trainers"), _TRAINERS[kind])
    importlib.import_module("tpack.train.interface").launch_train_with_config(
        make(**arguments), trainer() if kind == "simple" else trainer(options.towers)
    )
    return 0


def _load(path: str) -> dict[str, Any]:
    """Return the names of a project's file, whose neighbours it can import."""
    if not os.path.isfile(path):
        raise ConfigError(f"there is no file {path!r}: `tpack new DIR` makes a project")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    names = runpy.run_path(path)
    if not isinstance(names.get("CONFIG"), dict) or not callable(names.get("train_arguments")):
        raise ConfigError(f"{path!r} is no project: wanted a dict CONFIG and a function train_arguments(config) in it")
    return names


def with_settings(config: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Return a copy of a project's settings with some of them changed.

    Args:
        config: dicts in dicts.
        settings: each as ``a.b=value``. A value is read as Python writes it, and is of the kind of what it replaces;
            in place of a text it is taken as it is.

    Raises:
        ConfigError: There is no such setting, or the value is of another kind.
    """
    changed = copy.deepcopy(config)
    for setting in settings:
        path, equals, text = setting.partition("=")
        *groups, last = path.split(".")
        group: Any = changed
        for name in groups:
            group = group.get(name) if isinstance(group, dict) else None
        if not equals or not isinstance(group, dict) or last not in group or isinstance(group[last], dict):
            raise ConfigError(f"--set {setting}: wanted one of {', '.join(_names_in(config))}, with = and a value")
        group[last] = _read(setting, text, group[last])
    return changed


def _names_in(config: dict[str, Any], before: str = "") -> list[str]:
    """Return the names of all settings, as ``--set`` takes them."""
    found = []
    for name, value in config.items():
        found += _names_in(value, f"{before}{name}.") if isinstance(value, dict) else [f"{before}{name}"]
    return found


def _read(setting: str, text: str, old: Any) -> Any:
    if isinstance(old, str):
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    if isinstance(old, float) and type(value) is int:
        return float(value)
    if old is not None and type(value) is not type(old):
        raise ConfigError(f"--set {setting}: wanted a value of the kind of {old!r}")
    return value
