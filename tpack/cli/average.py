"""``tpack average``: the mean of several checkpoints, which often predicts better than the last of them.

TensorFlow is imported when the command runs, not for help.
"""

import argparse
import importlib
from typing import Any

import numpy as np

from tpack.errors import CheckpointError, ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = (
        "Write the mean of the variables in several checkpoints of one model. Floating-point variables are "
        "averaged, the moving statistics of batch normalisation among them; others are those of the last "
        "checkpoint. What only training needs, such as an optimizer's slots and counters, is left out."
    )
    parser.add_argument("checkpoints", nargs="+", help="their prefixes or directories, at least two")
    parser.add_argument("--out", required=True, help="the prefix of the checkpoint to write, or an .npz file")
    parser.set_defaults(run=run, loads_tensorflow=True)


def run(options: argparse.Namespace) -> str:
    """Average checkpoints; the memory holds the mean and one more variable.

    Raises:
        ConfigError: There is only one checkpoint, or one appears twice.
        CheckpointError: One is missing or damaged, has other variables than the first, or NaN in a variable.
    """
    checkpoint = importlib.import_module("tpack.tfutils.checkpoint")
    varmanip = importlib.import_module("tpack.tfutils.varmanip")
    prefixes = [checkpoint.resolve_checkpoint(path) for path in options.checkpoints]
    if len(set(prefixes)) < max(2, len(prefixes)):
        raise ConfigError(f"got checkpoints={', '.join(prefixes)}: expected at least two, none of them twice")
    readers = [checkpoint.CheckpointReader(prefix) for prefix in prefixes]
    shapes = []
    for reader in readers:
        found = {name: shape for name, shape in reader.shapes.items() if not varmanip.is_training_name(name)}
        if not found:
            raise CheckpointError(f"{reader.prefix} has only variables for training: expected others")
        shapes.append(found)
    for prefix, others in zip(prefixes[1:], shapes[1:], strict=True):
        _check_same(shapes[0], others, (prefixes[0], prefix))
    values = {name: _mean(readers, name) for name in sorted(shapes[0])}
    varmanip.save_checkpoint_vars(values, options.out)
    return f"Wrote the mean of {len(readers)} checkpoints, {len(values)} variable(s), to {options.out}\n"


def _check_same(first: dict[str, list[int]], other: dict[str, list[int]], prefixes: tuple[str, str]) -> None:
    """Refuse checkpoints of different models, before anything is read."""
    for name in sorted({*first, *other}):
        if first.get(name) != other.get(name):
            here, there = first.get(name, "nothing"), other.get(name, "nothing")
            raise CheckpointError(
                f"expected checkpoints of one model: {name} is of shape {here} in {prefixes[0]} and {there} in "
                f"{prefixes[1]}"
            )


def _mean(readers: list[Any], name: str) -> np.ndarray:
    """Return the mean of a variable, summed in float64; for integers the value of the last checkpoint."""
    last = np.asarray(readers[-1].read(name))
    if not np.issubdtype(last.dtype, np.floating):
        return last
    total = np.zeros(last.shape, np.float64)
    for reader in readers:
        value = reader.read(name)
        if not np.isfinite(value).all():
            raise CheckpointError(f"{name} is not finite in the checkpoint {reader.prefix}: leave it out")
        total += value
    return (total / len(readers)).astype(last.dtype)
