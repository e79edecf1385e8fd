"""``tpack inspect``: tables of the content of a checkpoint or an ``.npz`` file, and of the differences of two.

Local files of numbers are read without TensorFlow, whose import takes seconds; it is imported for all others.
"""

import argparse
import importlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

import numpy as np
from tabulate import tabulate

from tpack.cli.runs.terminal import printable
from tpack.errors import CheckpointError, InputError
from tpack.utils.formats.npz import MAX_BYTES, read_npz
from tpack.utils.formats.sstable import NotReadError
from tpack.utils.formats.tensor_bundle import read_bundle
from tpack.utils.fs import read_regular

_Values: TypeAlias = Mapping[str, np.ndarray]
_FILE_SUFFIX = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
_NEWEST = re.compile(r'model_checkpoint_path: "([^"\\]+)"')
_MOST_STATE_BYTES = 1 << 26
_BLOCK_SIZE = 1 << 20
_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = "List the variables in a checkpoint with their statistics, or compare two checkpoints."
    parser.add_argument("checkpoint", help="its prefix, one of its files or its directory; or an .npz file")
    parser.add_argument("other", nargs="?", help="another one, to be compared with the first")
    parser.add_argument(
        "--max-bytes",
        type=int,
        default=MAX_BYTES,
        metavar="N",
        help="limit of the decompressed arrays of an .npz file that are larger than it (default: %(default)s)",
    )
    parser.set_defaults(run=run, loads_tensorflow=True)


def run(options: argparse.Namespace) -> str:
    """Describe one checkpoint, or compare two; return the tables.

    Raises:
        CheckpointError: A checkpoint is missing or damaged.
        InputError: An ``.npz`` file is missing, damaged or too large.
    """
    values = _load(options.checkpoint, options.max_bytes)
    if options.other is None:
        return _describe(values)
    return _compare(values, _load(options.other, options.max_bytes), (options.checkpoint, options.other))


def _load(path: str, max_bytes: int) -> _Values:
    """Return the values of a checkpoint or an ``.npz`` file."""
    path = os.path.expanduser(path)
    if path.endswith(".npz"):
        try:
            arrays = read_npz(path, max_bytes=max_bytes)
        except InputError as error:
            raise InputError(str(error).replace("use max_bytes=", "use --max-bytes=")) from error
        return {name.removesuffix(":0"): value for name, value in arrays.items()}
    named = _named_in(path)
    # If the newest checkpoint of a directory does not load, an older one is used.
    with suppress(NotReadError, *([] if named is None else [CheckpointError])):
        prefix = named or _FILE_SUFFIX.sub("", path)
        if os.path.isfile(f"{prefix}.index"):
            return read_bundle(prefix)
    values: _Values = importlib.import_module("tpack.tfutils.varmanip").load_checkpoint_vars(path)
    return values


def _named_in(path: str) -> str | None:
    """Return the prefix of the newest checkpoint according to a directory; None if ``path`` is something else."""
    directory = (os.path.dirname(path) or ".") if os.path.basename(path) == "checkpoint" else path
    state = os.path.join(directory, "checkpoint")
    if not os.path.isfile(state) or os.path.isfile(f"{path}.index"):
        return None
    found = _NEWEST.match(read_regular(state, _MOST_STATE_BYTES).decode(errors="replace"))
    # A directory that was moved still has the original paths.
    return None if found is None else os.path.join(directory, os.path.basename(found[1]))


def _describe(values: _Values) -> str:
    """Return a table of name, shape, dtype, mean, standard deviation and size of arrays, and their totals."""
    rows = [
        (name, _format_shape(value), value.dtype.name, *_moments(value), _format_size(value.nbytes))
        for name, value in sorted(values.items())
    ]
    headers = ("name", "shape", "dtype", "mean", "std", "size")
    table = _draw_table(rows, headers, ("left", "left", "left", "right", "right", "right"))
    num_elements = sum(value.size for value in values.values())
    size = _format_size(sum(value.nbytes for value in values.values()))
    return f"{table}\n\n{len(rows)} variable(s) with {num_elements:,} elements, {size}\n"


def _moments(value: np.ndarray) -> tuple[str, str]:
    """Return mean and standard deviation as text, empty for what has none."""
    if not value.size or not _is_number(value) or value.dtype.kind == "c":
        return "", ""
    # Squares of half-precision numbers overflow.
    with np.errstate(invalid="ignore"):
        mean = sum(block.astype(np.float64).sum() for (block,) in _blocks(value)) / value.size
        variance = sum(np.square(block.astype(np.float64) - mean).sum() for (block,) in _blocks(value)) / value.size
        return f"{mean:.4g}", f"{np.sqrt(variance):.4g}"


def _blocks(*arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Return parts of arrays of one shape, flat and small enough for several copies in other dtypes."""
    flat = [array.ravel() for array in arrays]
    for start in range(0, flat[0].size, _BLOCK_SIZE):
        yield tuple(array[start : start + _BLOCK_SIZE] for array in flat)


def _compare(first: _Values, second: _Values, paths: tuple[str, str]) -> str:
    """Return the differences of arrays by name: in existence, in shape, and in values, the largest first."""
    sections = [f"A: {paths[0]}\nB: {paths[1]}", *_only_in_one(first, second)]
    both = sorted(first.keys() & second.keys())
    alike = [name for name in both if first[name].shape == second[name].shape]
    misfits = [(name, _format_shape(first[name]), _format_shape(second[name])) for name in both if name not in alike]
    if misfits:
        sections.append(f"Of different shapes:\n{_draw_table(misfits, ('name', 'in A', 'in B'))}")
    distances = {name: _max_difference(first[name], second[name]) for name in alike}
    # NaN comes first.
    unequal = sorted(
        (name for name in alike if distances[name] != 0), key=lambda name: -np.nan_to_num(distances[name], nan=np.inf)
    )
    if unequal:
        rows = []
        for name in unequal:
            dtypes = " / ".join(dict.fromkeys([first[name].dtype.name, second[name].dtype.name]))
            rows.append((name, _format_shape(first[name]), dtypes, f"{distances[name]:.4g}"))
        headers = ("name", "shape", "dtype", "max. difference")
        sections.append(f"Of different values:\n{_draw_table(rows, headers, ('left', 'left', 'left', 'right'))}")
    sections.append(f"{len(alike) - len(unequal)} of the {len(both)} variable(s) in both are equal.")
    return "\n\n".join(sections) + "\n"


def _max_difference(first: np.ndarray, second: np.ndarray) -> float:
    """Return the largest absolute difference of two arrays of one shape.

    Equal infinities, and NaN in both, do not differ; NaN in one is the difference NaN. Unequal values that are not
    numbers differ by infinity.
    """
    if not (_is_number(first) and _is_number(second)):
        return 0.0 if np.array_equal(first, second) else np.inf
    wide = np.complex128 if "c" in (first.dtype.kind, second.dtype.kind) else np.float64
    largest = np.float64(0)
    for one, other in _blocks(first, second):
        a, b = one.astype(wide), other.astype(wide)
        # Large integers are compared before they are rounded.
        same = (np.isnan(a) & np.isnan(b)) | np.asarray(one == other)
        with np.errstate(invalid="ignore"):
            # NaN wins.
            largest = np.maximum(largest, np.max(np.where(same, 0.0, np.abs(a - b))))
    return float(largest)


def _only_in_one(first: _Values, second: _Values) -> Iterator[str]:
    for letter, own, other in (("A", first, second), ("B", second, first)):
        rows = [(name, _format_shape(own[name]), own[name].dtype.name) for name in sorted(own.keys() - other.keys())]
        if rows:
            yield f"Only in {letter}:\n{_draw_table(rows, ('name', 'shape', 'dtype'))}"


def _draw_table(rows: Iterable[Sequence[str]], headers: Sequence[str], align: Sequence[str] | None = None) -> str:
    """Return a table of texts, whose columns are aligned ``"left"`` or ``"right"``, by default left."""
    drawn = [[printable(cell) for cell in row] for row in rows]
    columns = list(align) if align and drawn else None
    return tabulate(drawn, headers=list(headers), tablefmt="simple", disable_numparse=True, colalign=columns)


def _format_shape(value: np.ndarray) -> str:
    """Return the shape of an array as text, such as ``"[3, 3, 64]"``."""
    return f"[{', '.join(map(str, value.shape))}]"


def _format_size(size_bytes: float) -> str:
    """Return a number of bytes with its unit, such as ``"1.5 MiB"``."""
    unit = 0
    while size_bytes >= 1024 and unit < len(_SIZE_UNITS) - 1:
        size_bytes /= 1024
        unit += 1
    return f"{size_bytes:.0f} B" if unit == 0 else f"{size_bytes:.1f} {_SIZE_UNITS[unit]}"


def _is_number(value: np.ndarray) -> bool:
    """Tell whether an array holds numbers or booleans."""
    # Kind V are small floats that are not numpy's own, such as bfloat16, and records.
    return bool(
        value.dtype.kind in "biufc"
        or (value.dtype.kind == "V" and value.dtype.names is None and np.can_cast(value.dtype, np.float64))
    )
