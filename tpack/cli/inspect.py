"""``tpack inspect``: what is in a checkpoint or an ``.npz`` file, and how two of them differ."""

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np

from tpack.cli.compare import compare
from tpack.cli.tables import draw_table, format_shape, format_size, is_number
from tpack.tfutils.checkpoint_files import load_checkpoint_vars


def add_command(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    parser = commands.add_parser(
        "inspect",
        help="list the variables in a checkpoint, or compare two",
        description="List the variables in a checkpoint with their statistics, or compare two checkpoints.",
    )
    parser.add_argument("checkpoint", help="its prefix, one of its files or its directory; or an .npz file")
    parser.add_argument("other", nargs="?", help="another one, to be compared with the first")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Describe one checkpoint, or compare two.

    Args:
        options: those that `add_command` defines.

    Returns:
        The tables, as text.

    Raises:
        CheckpointError: A checkpoint is missing or damaged.
    """
    values = load_checkpoint_vars(options.checkpoint)
    if options.other is None:
        return describe(values)
    return compare(values, load_checkpoint_vars(options.other), (options.checkpoint, options.other))


def describe(values: Mapping[str, Any]) -> str:
    """Return a table of values: name, shape, dtype, mean, standard deviation and size, and what they are together.

    Args:
        values: arrays by name.
    """
    rows = [
        (name, format_shape(value), value.dtype.name, *_moments(value), format_size(value.nbytes))
        for name, value in sorted(values.items())
    ]
    headers = ("name", "shape", "dtype", "mean", "std", "size")
    table = draw_table(rows, headers, ("left", "left", "left", "right", "right", "right"))
    num_elements = sum(value.size for value in values.values())
    size = format_size(sum(value.nbytes for value in values.values()))
    return f"{table}\n\n{len(rows)} variable(s) with {num_elements:,} elements, {size}\n"


def _moments(value: Any) -> tuple[str, str]:
    """Return mean and standard deviation as text; empty where there are none."""
    if not value.size or not is_number(value) or value.dtype.kind == "c":
        return "", ""
    # Squares of half-precision numbers overflow.
    numbers = value.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return f"{numbers.mean():.4g}", f"{numbers.std():.4g}"
