"""Choose a reducer by measuring: build each candidate for the real gradients, time it, take the fastest.

The fastest algorithm depends on links, cores, caches and the number of small tensors; no table of rules is right for
all. Measuring takes some seconds per candidate, so the same towers and gradients are measured once: `ChoiceCache` keeps
the table on disk. The gradients are known only when they are reduced, so the choice is itself a reducer, `AutoReducer`.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.autotune.candidates import make_candidate, refusals
from tpack.reduction.autotune.measure import (
    LIKELY_CANDIDATES,
    DTypeLike,
    Measurement,
    MeasuringOptions,
    ShapeLike,
    Workload,
    format_table,
    make_workload,
    measure_candidate,
    sorted_rows,
)
from tpack.reduction.base import Reducer
from tpack.reduction.names import choose_by_heuristic
from tpack.tower.grads import Column, ReduceOp
from tpack.utils import logger
from tpack.utils.fs import atomic_write, mkdir_p
from tpack.utils.validation import check_arguments
from tpack.version import __version__

CACHE_VARIABLE = "TPACK_CACHE"
"""The environment variable for another cache directory."""

Question: TypeAlias = Mapping[str, object]
"""Everything that the result of a measurement depends on."""


@dataclass(frozen=True)
class MeasuredChoice:
    """The choice and its table.

    Attributes:
        reducer: the fastest, or one by the devices' kinds if nothing could be measured.
        reason: the reason as text.
        rows: the table, the fastest candidate first, errors last.
        is_cached: whether the numbers are from an earlier measurement.
    """

    reducer: Reducer
    reason: str
    rows: tuple[Measurement, ...] = ()
    is_cached: bool = False


@check_arguments
class ChoiceCache:
    """A directory with the tables of earlier measurements.

    There is one file per question: devices, gradients, versions, configuration and candidates. The file holds the
    question too, and is used for no other. An unreadable file gives a warning and is overwritten.

    Args:
        directory: the directory; by default ``reduction`` in `cache_directory`.
        is_write_only: never return a table, so that everything is measured again.
    """

    def __init__(self, directory: str | None = None, *, is_write_only: bool = False) -> None:
        self._directory = directory or os.path.join(cache_directory(), "reduction")
        self._is_write_only = is_write_only

    def load(self, question: Question) -> tuple[Measurement, ...] | None:
        """Return the stored rows of a question, or None; a damaged file counts as None, with a warning."""
        if self._is_write_only:
            return None
        path = self.path(question)
        try:
            return _read(path, question)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            logger.warning(f"The cached measurement {path} cannot be read, and is repeated: {error!r}")
            return None

    def store(self, question: Question, rows: Sequence[Measurement]) -> None:
        """Store the rows of a question; a failure to write gives a warning."""
        path = self.path(question)
        try:
            mkdir_p(self._directory)
            with atomic_write(path) as file:
                json.dump({"question": _plain(question), "rows": [row.as_json() for row in rows]}, file, indent=1)
        except OSError as error:
            logger.warning(f"The measurement cannot be stored in {path}: {error}")

    def path(self, question: Question) -> str:
        """Return the file of a question."""
        digits = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:24]
        return os.path.join(self._directory, f"{digits}.json")


@check_arguments
def choose_by_measurement(
    devices: Sequence[str],
    shapes: Sequence[ShapeLike],
    dtypes: DTypeLike | Sequence[DTypeLike] = tf.float32,
    session_config: tf.ConfigProto | None = None,
    *,
    options: MeasuringOptions | None = None,
    cache: ChoiceCache | None = None,
) -> MeasuredChoice:
    """Measure the candidates on gradients of these shapes, each in a separate process, and return the fastest.

    A candidate that fails, returns a wrong sum or exceeds the timeout is excluded, with the reason in its row. So is
    one that does not support these towers and gradients; among the default candidates it has no row. A cached table
    replaces the measurement if a candidate in it worked.

    Args:
        devices: the device of each tower. GPUs become logical CPU devices on a machine without GPUs. Devices of other
            processes are not measured.
        shapes: the shape of each dense gradient.
        dtypes: one per shape, or one for all.
        session_config: the ``ConfigProto`` of the session that will train; overrides that of ``options``.
        options: the candidates and parameters.
        cache: the cache of tables.

    Returns:
        The reducer, the reason and the table.

    Shapes:
        devices: K; shapes: N; dtypes: N, or one.

    Raises:
        ConfigError: A candidate is unknown or duplicate.
        ReductionError: There is no tower, two share a device, or a shape is not fully defined.
        DeviceError: A GPU is missing on a machine that has GPUs.
    """
    workload = make_workload(devices, shapes, dtypes)
    options = options or MeasuringOptions()
    if session_config is not None:
        options = replace(options, session_config=session_config)
    if len(workload.devices) == 1 or workload.size_bytes == 0:
        return _unmeasured(workload.devices, "there is nothing to reduce")
    if not workload.is_local:
        return _unmeasured(workload.devices, "devices of other processes cannot be measured from this one")
    refused = refusals(options.candidates, workload.devices, workload.dtypes)
    names = [name for name in options.candidates if name not in refused]
    # Some default candidates never fit; those that a user named each get a row.
    is_default = tuple(options.candidates) == LIKELY_CANDIDATES
    unfit = [] if is_default else [Measurement(name, error=reason) for name, reason in refused.items()]
    cache, question = cache or ChoiceCache(), make_question(workload, names, options)
    known = cache.load(question)
    if known:
        return _fastest(workload, [*known, *unfit], is_cached=True)
    rows = []
    for n, name in enumerate(names, start=1):
        logger.info(f"Measuring the reduction {name} in a separate process ({n} of {len(names)}).")
        rows.append(measure_candidate(name, workload, options))
    if any(not row.error for row in rows):
        cache.store(question, rows)
    return _fastest(workload, [*rows, *unfit], is_cached=False)


@check_arguments
class AutoReducer(Reducer):
    """A reducer that uses the choice of `choose_by_measurement` for dense gradients; the log gives it with the reason.

    Measuring takes some seconds per candidate before the graph is built; the same towers and gradients are measured
    once per machine. Gradients that cannot be measured, because a shape is not fully defined or towers share a device,
    are reduced by `choose_by_heuristic`.

    Args:
        session_config: the ``ConfigProto`` of the session that will train, or None.
        **choose_options: other keyword arguments of `choose_by_measurement`.
    """

    name = "auto"

    def __init__(self, session_config: tf.ConfigProto | None = None, **choose_options: Any) -> None:
        self._session_config = session_config
        self._choose_options = choose_options

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce with the chosen reducer."""
        chosen = self._choose(columns)
        logger.info(f"Gradients of {len(columns[0])} towers are reduced by {chosen.reducer.name}: {chosen.reason}.")
        if chosen.rows:
            logger.info("The measurements:\n" + format_table(chosen.rows))
        return chosen.reducer.reduce_columns(columns, op)

    def _choose(self, columns: Sequence[Column]) -> MeasuredChoice:
        devices = [tensor.device for tensor in columns[0]]
        shapes, dtypes = [column[0].shape for column in columns], [column[0].dtype for column in columns]
        try:
            return choose_by_measurement(devices, shapes, dtypes, self._session_config, **self._choose_options)
        except ReductionError as error:
            return _unmeasured(devices, f"nothing was measured, since {error}")


def _fastest(workload: Workload, rows: Sequence[Measurement], *, is_cached: bool) -> MeasuredChoice:
    ordered = sorted_rows(rows)
    exact = [row for row in ordered if not row.deviation]
    if not exact or exact[0].error:
        return _unmeasured(workload.devices, f"none of {len(ordered)} candidates could be measured", ordered)
    best = exact[0]
    when = "an earlier measurement" if is_cached else "a measurement"
    among = f"{len(exact)}" if len(exact) == len(ordered) else f"the {len(exact)} that give right values"
    reason = f"{best.name} is the fastest of {among} in {when}, {best.median_secs * 1e3:.1f} ms a step"
    second = exact[1:2]
    if second and not second[0].error:
        reason += f", before {second[0].name} with {second[0].median_secs * 1e3:.1f} ms"
    return MeasuredChoice(make_candidate(best.name, workload.devices), reason, ordered, is_cached)


def _unmeasured(devices: Sequence[str], why: str, rows: tuple[Measurement, ...] = ()) -> MeasuredChoice:
    copying = choose_by_heuristic(devices)
    return MeasuredChoice(copying.reducer, f"{why}; {copying.reason}", rows)


def cache_directory() -> str:
    """Return ``$TPACK_CACHE``, or ``tpack`` in the user's cache directory."""
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return os.path.expanduser(own)
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tpack")


def make_question(workload: Workload, candidates: Sequence[str], options: MeasuringOptions) -> Question:
    """Return everything that the result depends on, as plain data."""
    gpus = tf.config.list_physical_devices("GPU")
    return {
        "workload": workload.as_json(),
        "candidates": list(candidates),
        "session_config": options.config_digits,
        "cpus": os.cpu_count(),
        "gpus": [str(tf.config.experimental.get_device_details(gpu).get("device_name", "")) for gpu in gpus],
        "tensorflow": tf.__version__,
        "tpack": __version__,
    }


def _read(path: str, question: Question) -> tuple[Measurement, ...]:
    with open(path, encoding="utf-8") as file:
        stored = json.load(file)
    if stored["question"] != _plain(question):
        raise ValueError("it answers another question")
    return tuple(Measurement.from_json(row) for row in stored["rows"])


def _plain(question: Question) -> object:
    """Return the question after a round trip through JSON, where tuples are lists."""
    return json.loads(json.dumps(question))
