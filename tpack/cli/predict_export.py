"""``tpack predict`` and ``tpack export``: what a trained project says of data, and the model taken out of tpack.

The file of the project has one name more for them: ``predict_arguments(config)``, which returns the arguments of
`PredictConfig` as a dict. Weights are those of the newest checkpoint in the log directory, and settings those that
`tpack train` has left beside it.
"""

import argparse
import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tabulate import tabulate

from tpack.cli.project import add_project_arguments, config_of_training, load_project, log_directory
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
    """Run the model on all examples of a file, and write what it says to another.

    Args:
        options: those that `add_predict_arguments` defines.

    Returns:
        What was written, as a table.

    Raises:
        ConfigError: The file is no project that predicts, nothing is trained, or the data are not what it takes.
        CheckpointError: The weights are damaged, or of another model.
    """
    if options.batch_size < 1:
        raise ConfigError(f"--batch-size wants a positive number, got {options.batch_size}")
    if not options.out.endswith(".npz"):
        raise ConfigError(f"--out wants a file that ends in .npz, got {options.out!r}")
    config = _predict_config(options)
    arrays = _arrays_for(config, options.data)
    predictor = importlib.import_module("tpack.predict.offline").OfflinePredictor(config)
    parts = [_checked(config, predictor(*batch), len(batch[0])) for batch in _batches(arrays, options.batch_size)]
    names = [name.removesuffix(":0") for name in config.output_names]
    outputs: dict[str, Any] = {
        name: np.concatenate(part) for name, part in zip(names, zip(*parts, strict=True), strict=True)
    }
    with atomic_write(options.out, "wb") as file:
        np.savez(file, **outputs)
    return _table(outputs) + f"\n\n{options.out}: {len(arrays[0])} example(s)\n"


def run_export(options: argparse.Namespace) -> str:
    """Write the model as a SavedModel, or as one frozen graph.

    Args:
        options: those that `add_export_arguments` defines.

    Returns:
        What was written, as text.

    Raises:
        ConfigError: The file is no project that predicts, nothing is trained, or the directory is not new.
        CheckpointError: The weights are damaged, or of another model.
    """
    config = _predict_config(options)
    exporter = importlib.import_module("tpack.tfutils.export").ModelExporter(config)
    kind = "a frozen graph" if options.out.endswith(".pb") else "a SavedModel"
    (exporter.export_compact if options.out.endswith(".pb") else exporter.export_serving)(options.out)
    return f"{options.out}: {kind}, {', '.join(config.input_names)} -> {', '.join(config.output_names)}\n"


def _predict_config(options: argparse.Namespace) -> Any:
    """Return the `PredictConfig` of a project, with the weights that it was trained to."""
    names = load_project(
        options.file, "predict_arguments", "{'model': ..., 'input_names': [...], 'output_names': [...]}"
    )
    directory = log_directory(options)
    config = config_of_training(names["CONFIG"], directory, options.settings)
    arguments = names["predict_arguments"](config)
    if not isinstance(arguments, dict):
        raise ConfigError(f"predict_arguments of {options.file!r} must return a dict, got {type(arguments).__name__}")
    if options.load is not None or "session_init" not in arguments:
        init = importlib.import_module("tpack.tfutils.sessinit").SmartInit
        arguments = {**arguments, "session_init": init(options.load or _newest_checkpoint(options, directory))}
    return importlib.import_module("tpack.predict.config").PredictConfig(**arguments)


def _newest_checkpoint(options: argparse.Namespace, directory: str) -> str:
    found: str | None = importlib.import_module("tpack.tfutils.checkpoint").latest_checkpoint(directory)
    if found is None:
        raise ConfigError(
            f"there is no checkpoint in {directory}: train first, by `tpack train {options.file}`, or give --load"
        )
    return found


def _arrays_for(config: Any, path: str) -> list[np.ndarray]:
    """Return what a file has for each input of the model, as the model takes it."""
    if not path.endswith((".npy", ".npz")):
        raise ConfigError(f"expected data in an .npz or .npy file, got {path!r}")
    if not os.path.isfile(path):
        raise ConfigError(f"there is no file {path!r}")
    inputs = [name.removesuffix(":0") for name in config.input_names]
    given = _read_data(path, inputs)
    missing = [name for name in inputs if name not in given]
    if missing:
        raise ConfigError(
            f"{path} has {', '.join(given) or 'nothing'}: expected an array for {', '.join(missing)} as well"
        )
    specs = {spec.name: spec for spec in config.input_signature}
    arrays = [_as_taken(name, given[name], specs.get(name)) for name in inputs]
    lengths = {name: len(array) if array.ndim else None for name, array in zip(inputs, arrays, strict=True)}
    if len(set(lengths.values())) != 1 or lengths[inputs[0]] in (None, 0):
        raise ConfigError(f"expected as many examples for each input, at least one, got {lengths} in {path}")
    return arrays


def _read_data(path: str, inputs: Sequence[str]) -> Mapping[str, np.ndarray]:
    try:
        if path.endswith(".npz"):
            return read_npz(path)
        if len(inputs) > 1:
            raise ConfigError(f"{path} has one array, and the model takes {', '.join(inputs)}: expected an .npz file")
        return {inputs[0]: np.load(path, allow_pickle=False)}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _as_taken(name: str, array: np.ndarray, spec: Any) -> np.ndarray:
    """Return an array of the type of an input, whose shape it must have."""
    if spec is None:
        return array
    if not spec.shape.is_compatible_with(array.shape):
        raise ConfigError(f"the input {name} takes the shape {spec.shape}, got {list(array.shape)}")
    wanted = spec.dtype.as_numpy_dtype
    if not np.can_cast(array.dtype, wanted, casting="same_kind"):
        raise ConfigError(f"the input {name} takes {np.dtype(wanted).name}, got {array.dtype.name}")
    return array.astype(wanted)


def _batches(arrays: Sequence[np.ndarray], size: int) -> Iterator[list[np.ndarray]]:
    return ([array[start : start + size] for array in arrays] for start in range(0, len(arrays[0]), size))


def _checked(config: Any, outputs: Sequence[np.ndarray], num_examples: int) -> Sequence[np.ndarray]:
    for name, value in zip(config.output_names, outputs, strict=True):
        if np.shape(value)[:1] != (num_examples,):
            raise ConfigError(
                f"the output {name} has the shape {list(np.shape(value))} for {num_examples} example(s): expected a "
                "value for each"
            )
    return outputs


def _table(outputs: Mapping[str, np.ndarray]) -> str:
    rows = [(name, list(value.shape), value.dtype.name, _first(value)) for name, value in outputs.items()]
    return tabulate(rows, headers=("output", "shape", "dtype", "first values"), disable_numparse=True)


def _first(value: np.ndarray) -> str:
    flat = value.reshape(-1)
    shown = [f"{one:.4g}" if flat.dtype.kind in "fV" else str(one) for one in flat[:_FIRST_VALUES]]
    return ", ".join([*shown, *(["..."] if flat.size > _FIRST_VALUES else [])])
