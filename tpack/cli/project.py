"""``tpack new`` and ``tpack train``: projects of a model, data, settings and a test, and their training.

A project is one file with these names: ``CONFIG``, a dict of settings, ``train_arguments(config)``, which returns the
arguments of `TrainConfig` as a dict, and for `tpack.cli.predict_export` ``predict_arguments(config)``. Trainer, number
of towers and log directory are options. The settings of a training are saved beside its checkpoints.
"""

import argparse
import ast
import copy
import importlib
import json
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

SETTINGS_FILE = "settings.json"
"""The file in the log directory with the settings of the training."""

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


def predict_arguments(config):
    """Return the arguments of tpack.PredictConfig, for `tpack predict` and `tpack export`."""
    return {"model": Model(**config["model"]), "input_names": ["point"], "output_names": ["probability"]}
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
    parser.description = (
        f"Make a project that trains: {' and '.join(_FILES)}, with a small model of points in the plane, its data, its "
        "settings, and a test for pytest. Then `tpack train project.py` trains it."
    )
    parser.add_argument("directory", help="where; it must be new or empty")
    parser.set_defaults(run=run_new)


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe ``tpack train``, and add its arguments to its parser."""
    parser.description = "Train a file with CONFIG and train_arguments(config), such as the one that `tpack new` makes."
    add_project_arguments(parser)
    parser.add_argument("--trainer", choices=_TRAINERS, help="default: simple, or replicated with several towers")
    parser.add_argument("--towers", type=int, default=1, help="how many (default: %(default)s)")
    parser.add_argument("--logdir", help="default: train_log/NAME_OF_THE_FILE; one that exists is moved aside")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in the log directory")
    parser.set_defaults(run=run_train, loads_tensorflow=True)


def add_project_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a project and change its settings to a parser."""
    parser.add_argument("file", help="the file of the project")
    parser.add_argument(
        "--set", action="append", default=[], dest="settings", metavar="A.B=C", help="change CONFIG['A']['B'] to C"
    )


def run_new(options: argparse.Namespace) -> str:
    """Write the files of a project; return the next commands.

    Raises:
        ConfigError: The directory is not empty.
    """
    directory = options.directory
    if os.path.exists(directory) and (not os.path.isdir(directory) or os.listdir(directory)):
        raise ConfigError(f"tpack new got {directory!r}, which is not empty: expected a new directory")
    os.makedirs(directory, exist_ok=True)
    for name, text in _FILES.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)
    return f"{', '.join(_FILES)} are in {directory}. Next:\n    cd {directory}\n    tpack train project.py\n"


def run_train(options: argparse.Namespace) -> int:
    """Train a project; return the exit code, 0.

    Raises:
        ConfigError: The file is not a project, a setting is not in its ``CONFIG``, or the options do not go together.
    """
    if options.trainer == "simple" and options.towers != 1:
        raise ConfigError(f"--towers got {options.towers}: expected 1 for the simple trainer")
    names = load_project(options.file, "train_arguments", "{'model': ..., 'dataflow': ..., 'max_epoch': ...}")
    config = with_settings(names["CONFIG"], options.settings)
    logger = importlib.import_module("tpack.utils.logger")
    logger.set_logger_dir(log_directory(options), "k" if options.resume else "b")
    _leave_settings(config, logger.get_logger_dir())
    arguments = arguments_of(names, "train_arguments", config, options.file)
    # This module loads the one of `TrainConfig` too.
    resume = importlib.import_module("tpack.train.resume")
    make = resume.AutoResumeTrainConfig if options.resume else resume.TrainConfig
    kind = options.trainer or ("simple" if options.towers == 1 else "replicated")
    trainer = getattr(importlib.import_module("tpack.train.trainers"), _TRAINERS[kind])
    made = trainer() if kind == "simple" else trainer(options.towers)
    importlib.import_module("tpack.train.interface").launch_train_with_config(make(**arguments), made)
    return 0


def arguments_of(names: dict[str, Any], function: str, config: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the arguments that a function of a project returns for its settings.

    Raises:
        ConfigError: It returns something else than a dict.
    """
    arguments = names[function](config)
    if not isinstance(arguments, dict):
        got = type(arguments).__name__
        raise ConfigError(f"{function} of {path!r} returned an object of {got}: expected a dict of arguments")
    return arguments


def log_directory(options: argparse.Namespace) -> str:
    """Return the log directory of a project."""
    name = os.path.splitext(os.path.basename(options.file))[0]
    return str(options.logdir or os.path.join("train_log", name))


def load_project(path: str, function: str, returned: str) -> dict[str, Any]:
    """Return the names of a project's file, which can import its neighbours.

    Args:
        path: the file.
        function: a function of the settings that it must have.
        returned: the result of that, for the message.

    Raises:
        ConfigError: The file does not exist, is not a project, or lacks the function.
    """
    if not os.path.isfile(path):
        raise ConfigError(f"file got {path!r}: expected a file that exists; use `tpack new DIR` to make a project")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    names = runpy.run_path(path)
    if not isinstance(names.get("CONFIG"), dict) or not callable(names.get(function)):
        expected = f"a dict CONFIG, and a function {function}(config) that returns {returned}"
        raise ConfigError(f"{path!r} is not a project for this command: expected {expected}")
    return names


def _leave_settings(config: dict[str, Any], directory: str) -> None:
    """Write the settings of a training into its log directory."""
    try:
        text = json.dumps(config, indent=1)
    except (TypeError, ValueError) as error:
        importlib.import_module("tpack.utils.logger").warning(
            f"{SETTINGS_FILE} is not written, since CONFIG is not JSON ({error}): use the same --set for `tpack "
            "predict` and `tpack export` as for this training."
        )
        return
    with importlib.import_module("tpack.utils.fs").atomic_write(os.path.join(directory, SETTINGS_FILE)) as file:
        file.write(f"{text}\n")


def config_of_training(config: dict[str, Any], directory: str, settings: Sequence[str]) -> dict[str, Any]:
    """Return the settings that a project was trained with, some of them changed.

    Args:
        config: the settings in its file, used where the training has saved none.
        directory: the log directory of the training.
        settings: see `with_settings`.

    Raises:
        ConfigError: The saved settings cannot be read, or see `with_settings`.
    """
    path = os.path.join(directory, SETTINGS_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            trained = json.load(file)
    except FileNotFoundError:
        trained = {}
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    return with_settings(_merged(config, trained), settings)


def _merged(config: Any, trained: Any) -> Any:
    """Return the settings of a training; those that it did not have stay."""
    if isinstance(config, dict) and isinstance(trained, dict):
        return {name: _merged(value, trained[name]) if name in trained else value for name, value in config.items()}
    # JSON has no tuples.
    return tuple(trained) if isinstance(config, tuple) and isinstance(trained, list) else trained


def with_settings(config: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Return a copy of a project's settings with some of them changed.

    Args:
        config: dicts in dicts.
        settings: each as ``a.b=value``. A value is a Python literal of the type that it replaces, or plain text in
            place of text.

    Raises:
        ConfigError: A setting is unknown, or the value is of another type.
    """
    changed = copy.deepcopy(config)
    for setting in settings:
        path, equals, text = setting.partition("=")
        *groups, last = path.split(".")
        group: Any = changed
        for name in groups:
            group = group.get(name) if isinstance(group, dict) else None
        if not equals or not isinstance(group, dict) or last not in group or isinstance(group[last], dict):
            raise ConfigError(
                f"--set got {setting}: expected one of {', '.join(_names_in(config))}, with = and a value"
            )
        group[last] = _read(setting, text, group[last])
    return changed


def _names_in(config: dict[str, Any], before: str = "") -> list[str]:
    """Return the names of all settings for ``--set``."""
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
        raise ConfigError(f"--set got {setting}: expected a value of the type of {old!r}")
    return value
