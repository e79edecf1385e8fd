"""Choose a reducer by measuring: build each candidate that fits for the real gradients, time it, take the fastest.

Which algorithm is fastest depends on links, cores, caches and on how many small tensors a model has; a table of rules
for all of that would be wrong somewhere. Measuring takes some seconds for each candidate, so the same towers with the
same gradients are measured once: `ChoiceCache` keeps the table on disk. What the gradients are is known when they are
reduced and not when a trainer is made, so the choice is itself a reducer, `AutoReducer`.
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
from tpack.reduction.autotune.heuristic import choose_by_heuristic
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
from tpack.tower.grads import Column, ReduceOp
from tpack.utils import logger
from tpack.utils.fs import atomic_write, mkdir_p
from tpack.utils.validation import check_arguments
from tpack.version import __version__

CACHE_VARIABLE = "TPACK_CACHE"
"""The environment variable that names another directory for what tpack remembers."""

Question: TypeAlias = Mapping[str, object]
"""Everything that the answer of a measurement depends on."""


@dataclass(frozen=True)
class MeasuredChoice:
    """What was chosen, and by which numbers.

    Attributes:
        reducer: the fastest, or one by the devices' kinds if nothing could be measured.
        reason: why, as text.
        rows: the table, the fastest candidate first, those with errors last.
        is_cached: whether the numbers are those of an earlier measurement.
    """

    reducer: Reducer
    reason: str
    rows: tuple[Measurement, ...] = ()
    is_cached: bool = False


@check_arguments
class ChoiceCache:
    """The tables of earlier measurements, in a directory.

    There is one file for each question: devices, gradients, versions, configuration and candidates. It holds the
    question too, so a file is only ever taken as the answer to its own. A file that cannot be read is no error but a
    warning, and is written anew.

    Args:
        directory: where; by default ``reduction`` below `cache_directory` of the moment.
        is_write_only: answer nothing, so that everything is measured again.
    """

    def __init__(self, directory: str | None = None, *, is_write_only: bool = False) -> None:
        self._directory = directory or os.path.join(cache_directory(), "reduction")
        self._is_write_only = is_write_only

    def load(self, question: Question) -> tuple[Measurement, ...] | None:
        """Return the rows that were stored for a question, or None. A damaged file counts as none, with a warning."""
        if self._is_write_only:
            return None
        path = self.path(question)
        try:
            return _read(path, question)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            logger.warning(f"What was measured before cannot be read from {path}, and is measured again: {error!r}")
            return None

    def store(self, question: Question, rows: Sequence[Measurement]) -> None:
        """Store the rows of a question. Where nothing can be written, a warning says so."""
        path = self.path(question)
        try:
            mkdir_p(self._directory)
            with atomic_write(path) as file:
                json.dump({"question": _plain(question), "rows": [row.as_json() for row in rows]}, file, indent=1)
        except OSError as error:
            logger.warning(f"What was measured cannot be kept in {path}: {error}")

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
    """Measure the candidates on gradients of these shapes, each in a process of its own, and return the fastest.

    A candidate that fails, returns a wrong sum or takes too long is out, and its row says why. So is one that cannot
    serve these towers and gradients, which has a row unless it is only one of the default candidates. An answer in the
    cache is taken instead of measuring, unless it had no candidate that worked.

    Args:
        devices: the device of each tower. GPUs become logical CPU devices on a machine without GPUs. With devices of
            other processes nothing is measured.
        shapes: the shape of each dense gradient.
        dtypes: one for each shape, or one for all.
        session_config: the ``ConfigProto`` of the session that will train; goes before that of ``options``.
        options: what to measure, and how.
        cache: where to remember the table.

    Returns:
        The reducer, the reason and the table.

    Shapes:
        devices: K; shapes: N; dtypes: N, or one.

    Raises:
        ConfigError: There is no such candidate, or one is there twice.
        ReductionError: There is no tower, two share a device, or a shape is not fully defined.
        DeviceError: A GPU that the machine, having GPUs, does not have.

    Source:
        tpack's own.
    """
    workload = make_workload(devices, shapes, dtypes)
    options = _with_config(options or MeasuringOptions(), session_config)
    if len(workload.devices) == 1 or workload.size_bytes == 0:
        return _unmeasured(workload, "there is nothing to reduce")
    if not workload.is_local:
        return _unmeasured(workload, "devices of other processes cannot be measured from this one")
    refused = refusals(options.candidates, workload.devices, workload.dtypes)
    names = [name for name in options.candidates if name not in refused]
    # Of the usual candidates some never suit; of those that somebody asked for, each gets an answer.
    was_asked = tuple(options.candidates) != LIKELY_CANDIDATES
    told = [Measurement(name, error=reason) for name, reason in refused.items()] if was_asked else []
    cache, question = cache or ChoiceCache(), make_question(workload, names, options)
    known = cache.load(question)
    if known:
        return _fastest(workload, [*known, *told], is_cached=True)
    rows = []
    for n, name in enumerate(names, start=1):
        logger.info(f"Measuring the reduction {name} in a process of its own ({n} of {len(names)}).")
        rows.append(measure_candidate(name, workload, options))
    if any(not row.error for row in rows):
        cache.store(question, rows)
    return _fastest(workload, [*rows, *told], is_cached=False)


@check_arguments
class AutoReducer(Reducer):
    """Reduce dense gradients with what `choose_by_measurement` finds for them; the log says what, and why.

    Measuring takes some seconds for each candidate before the graph is built, and nothing when the same towers and
    gradients were measured on this machine before. Gradients that cannot be measured, because a shape is not fully
    defined or a tower has no device of its own, are reduced by what suits the kinds of the devices.

    Args:
        session_config: the ``ConfigProto`` of the session that will train, or None.
        **choose_options: other keyword arguments of `choose_by_measurement`.
    """

    name = "auto"

    def __init__(self, session_config: tf.ConfigProto | None = None, **choose_options: Any) -> None:
        self._session_config = session_config
        self._choose_options = choose_options

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Choose, and reduce with what was chosen."""
        chosen = self._choose(columns)
        logger.info(f"Gradients of {len(columns[0])} towers are reduced by {chosen.reducer.name}: {chosen.reason}.")
        if chosen.rows:
            logger.info("What was measured:\n" + format_table(chosen.rows))
        return chosen.reducer.reduce_columns(columns, op)

    def _choose(self, columns: Sequence[Column]) -> MeasuredChoice:
        devices = [tensor.device for tensor in columns[0]]
        shapes, dtypes = [column[0].shape for column in columns], [column[0].dtype for column in columns]
        try:
            return choose_by_measurement(devices, shapes, dtypes, self._session_config, **self._choose_options)
        except ReductionError as error:
            copying = choose_by_heuristic(devices)
            return MeasuredChoice(copying.reducer, f"nothing was measured, since {error}; {copying.reason}")


def _with_config(options: MeasuringOptions, session_config: tf.ConfigProto | None) -> MeasuringOptions:
    return options if session_config is None else replace(options, session_config=session_config)


def _fastest(workload: Workload, rows: Sequence[Measurement], *, is_cached: bool) -> MeasuredChoice:
    ordered = sorted_rows(rows)
    exact = [row for row in ordered if not row.deviation]
    if not exact or exact[0].error:
        return _unmeasured(workload, f"none of {len(ordered)} candidates could be measured", ordered)
    best = exact[0]
    when = "an earlier measurement" if is_cached else "a measurement"
    among = f"{len(exact)}" if len(exact) == len(ordered) else f"the {len(exact)} that give right values"
    reason = f"{best.name} is the fastest of {among} in {when}, {best.median_secs * 1e3:.1f} ms a step"
    second = exact[1:2]
    if second and not second[0].error:
        reason += f", before {second[0].name} with {second[0].median_secs * 1e3:.1f} ms"
    return MeasuredChoice(make_candidate(best.name, workload.devices), reason, ordered, is_cached)


def _unmeasured(workload: Workload, why: str, rows: tuple[Measurement, ...] = ()) -> MeasuredChoice:
    copying = choose_by_heuristic(workload.devices)
    return MeasuredChoice(copying.reducer, f"{why}; {copying.reason}", rows)


def cache_directory() -> str:
    """Return ``$TPACK_CACHE``, or ``tpack`` in the user's directory for caches."""
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return os.path.expanduser(own)
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tpack")


def make_question(workload: Workload, candidates: Sequence[str], options: MeasuringOptions) -> Question:
    """Return everything that the answer depends on, as plain data."""
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
    """Return the question as it comes back from JSON, where tuples are lists."""
    return json.loads(json.dumps(question))
