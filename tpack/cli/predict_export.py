"""``tpack predict`` and ``tpack export``: run a trained project on data, and write its model for other programs.

The project's file also has ``predict_arguments(config)``, which returns the arguments of `PredictConfig` as a dict. The
weights are those of the newest checkpoint in the log directory, the settings those that `tpack train` saved beside it.
"""

import argparse
import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tabulate import tabulate

from tpack.cli.project import add_project_arguments, arguments_of, config_of_training, load_project, log_directory
from tpack.errors import ConfigError
from tpack.utils.formats.npz import read_npz
from tpack.utils.fs import atomic_write

_FIRST_VALUES = 4


def add_predict_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe ``tpack predict``, and add its arguments to its parser."""
    parser.description = (
        "Run a trained project on data: a file with CONFIG and predict_arguments(config), such as the one that "
        "`tpack new` makes."
    )
    add_project_arguments(parser)
    parser.add_argument(
        "data", help="an .npz file with an array for each input, examples first; or an .npy file where there is one"
    )
    parser.add_argument("--out", default="predictions.npz", help="the .npz file to write (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=256, help="examples at a time (default: %(default)s)")
    _add_weights(parser)
    parser.set_defaults(run=run_predict, loads_tensorflow=True)


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe ``tpack export``, and add its arguments to its parser."""
    parser.description = "Write a trained project for programs that have neither tpack nor its code."
    add_project_arguments(parser)
    parser.add_argument(
        "out", help="a new directory for a SavedModel, which servers want to end in a number; or a .pb file"
    )
    _add_weights(parser)
    parser.set_defaults(run=run_export, loads_tensorflow=True)


def _add_weights(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--logdir", help="where it was trained (default: train_log/NAME_OF_THE_FILE)")
    parser.add_argument("--load", metavar="CHECKPOINT", help="default: the newest in the log directory")


def run_predict(options: argparse.Namespace) -> str:
    """Run the model on all examples of a file, write the outputs to another, and return a table of them.

    Raises:
        ConfigError: The file is not a project that predicts, nothing is trained, or the data do not fit.
        CheckpointError: The weights are damaged, or of another model.
    """
    if options.batch_size < 1:
        raise ConfigError(f"--batch-size got {options.batch_size}: expected a positive number")
    if not options.out.endswith(".npz"):
        raise ConfigError(f"--out got {options.out!r}: expected a file that ends in .npz")
    config = _predict_config(options)
    arrays = _arrays_for(config, options.data)
    predictor = importlib.import_module("tpack.predict.offline").OfflinePredictor(config)
    size = options.batch_size
    batches = ([array[start : start + size] for array in arrays] for start in range(0, len(arrays[0]), size))
    parts = [_checked(config, predictor(*batch), len(batch[0])) for batch in batches]
    names = [name.removesuffix(":0") for name in config.output_names]
    outputs: dict[str, Any] = dict(zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True))
    with atomic_write(options.out, "wb") as file:
        np.savez(file, **outputs)
    rows = [(name, list(value.shape), value.dtype.name, _first(value)) for name, value in outputs.items()]
    table = tabulate(rows, headers=("output", "shape", "dtype", "first values"), disable_numparse=True)
    return f"{table}\n\n{options.out}: {len(arrays[0])} example(s)\n"


def run_export(options: argparse.Namespace) -> str:
    """Write the model as a SavedModel, or as one frozen graph; return a note of the result.

    Raises:
        ConfigError: The file is not a project that predicts, nothing is trained, or the directory is not new.
        CheckpointError: The weights are damaged, or of another model.
    """
    config = _predict_config(options)
    exporter = importlib.import_module("tpack.tfutils.export").ModelExporter(config)
    is_frozen = options.out.endswith(".pb")
    (exporter.export_compact if is_frozen else exporter.export_serving)(options.out)
    kind = "a frozen graph" if is_frozen else "a SavedModel"
    return f"{options.out}: {kind}, {', '.join(config.input_names)} -> {', '.join(config.output_names)}\n"


def _predict_config(options: argparse.Namespace) -> Any:
    """Return the `PredictConfig` of a project with its trained weights."""
    returned = "{'model': ..., 'input_names': [...], 'output_names': [...]}"
    names = load_project(options.file, "predict_arguments", returned)
    directory = log_directory(options)
    config = config_of_training(names["CONFIG"], directory, options.settings)
    arguments = arguments_of(names, "predict_arguments", config, options.file)
    if options.load is not None or "session_init" not in arguments:
        newest = importlib.import_module("tpack.tfutils.checkpoint").latest_checkpoint
        weights = options.load or newest(directory)
        if weights is None:
            raise ConfigError(f"{directory} has no checkpoint: use `tpack train {options.file}` first, or --load")
        init = importlib.import_module("tpack.tfutils.sessinit").SmartInit(weights, must_match=True)
        arguments = {**arguments, "session_init": init}
    return importlib.import_module("tpack.predict.config").PredictConfig(**arguments)


def _arrays_for(config: Any, path: str) -> list[np.ndarray]:
    """Return the array of a file for each input of the model, in the input's type."""
    if not path.endswith((".npy", ".npz")):
        raise ConfigError(f"data got {path!r}: expected an .npz or .npy file")
    if not os.path.isfile(path):
        raise ConfigError(f"data got {path!r}: expected a file that exists")
    inputs = [name.removesuffix(":0") for name in config.input_names]
    given = _read_data(path, inputs)
    missing = [name for name in inputs if name not in given]
    if missing:
        got = ", ".join(given) or "nothing"
        raise ConfigError(f"{path} has {got}: expected an array for {', '.join(missing)} as well")
    specs = {spec.name: spec for spec in config.input_signature}
    arrays = [_as_taken(name, given[name], specs.get(name)) for name in inputs]
    lengths = {name: len(array) if array.ndim else None for name, array in zip(inputs, arrays, strict=True)}
    if len(set(lengths.values())) != 1 or lengths[inputs[0]] in (None, 0):
        raise ConfigError(f"{path} has {lengths} examples: expected the same number for each input, at least one")
    return arrays


def _read_data(path: str, inputs: Sequence[str]) -> Mapping[str, np.ndarray]:
    try:
        if path.endswith(".npz"):
            return read_npz(path)
        if len(inputs) > 1:
            raise ConfigError(f"{path} has one array: expected an .npz file, for {', '.join(inputs)}")
        return {inputs[0]: np.load(path, allow_pickle=False)}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _as_taken(name: str, array: np.ndarray, spec: Any) -> np.ndarray:
    """Return an array in the type of an input, whose shape it must have."""
    if spec is None:
        return array
    if not spec.shape.is_compatible_with(array.shape):
        raise ConfigError(f"the input {name} got the shape {list(array.shape)}: expected {spec.shape}")
    expected = spec.dtype.as_numpy_dtype
    if not np.can_cast(array.dtype, expected, casting="same_kind"):
        raise ConfigError(f"the input {name} got {array.dtype.name}: expected {np.dtype(expected).name}")
    return array.astype(expected)


def _checked(config: Any, outputs: Sequence[np.ndarray], num_examples: int) -> Sequence[np.ndarray]:
    for name, value in zip(config.output_names, outputs, strict=True):
        if np.shape(value)[:1] != (num_examples,):
            got = f"{list(np.shape(value))} for {num_examples} example(s)"
            raise ConfigError(f"the output {name} has the shape {got}: expected a value for each")
    return outputs


def _first(value: np.ndarray) -> str:
    flat = value.reshape(-1)
    shown = [f"{one:.4g}" if flat.dtype.kind in "fV" else str(one) for one in flat[:_FIRST_VALUES]]
    return ", ".join([*shown, *(["..."] if flat.size > _FIRST_VALUES else [])])
