"""Choose a reducer by measuring: build each candidate that fits for the real gradients, time it, take the fastest.

Which algorithm is fastest depends on links, cores, caches and on how many small tensors a model has; a table of rules
for all of that would be wrong somewhere. Measuring takes some seconds for each candidate, once: the table is kept on
disk.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.reduction.base import Reducer
from tpack.reduction.choice_cache import ChoiceCache, make_question
from tpack.reduction.choose.by_kind import choose_by_kind
from tpack.reduction.choose.candidates import fitting_candidates, make_candidate
from tpack.reduction.choose.measure import MeasuringOptions, measure_candidate
from tpack.reduction.measurement import Measurement, sorted_rows
from tpack.reduction.workload import Workload, make_workload
from tpack.utils import logger


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


def choose_by_measurement(
    devices: Sequence[str],
    shapes: Sequence[Any],
    dtypes: Any = tf.float32,
    session_config: Any = None,
    *,
    options: MeasuringOptions | None = None,
    cache: ChoiceCache | None = None,
) -> MeasuredChoice:
    """Measure the candidates on gradients of these shapes, each in a process of its own, and return the fastest.

    A candidate that fails, returns a wrong sum or takes too long is out, and its row says why. An answer in the cache
    is taken instead, unless it had no candidate that worked.

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
        ConfigError: There is no such candidate.
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
    names = fitting_candidates(options.candidates, workload.devices, workload.dtypes)
    cache, question = cache or ChoiceCache(), make_question(workload, names, options)
    known = cache.load(question)
    if known:
        return _fastest(workload, known, is_cached=True)
    rows = []
    for n, name in enumerate(names, start=1):
        logger.info(f"Measuring the reduction {name} in a process of its own ({n} of {len(names)}).")
        rows.append(measure_candidate(name, workload, options))
    if any(not row.error for row in rows):
        cache.store(question, rows)
    return _fastest(workload, rows, is_cached=False)


def _with_config(options: MeasuringOptions, session_config: Any) -> MeasuringOptions:
    return options if session_config is None else replace(options, session_config=session_config)


def _fastest(workload: Workload, rows: Sequence[Measurement], *, is_cached: bool) -> MeasuredChoice:
    ordered = sorted_rows(rows)
    if not ordered or ordered[0].error:
        return _unmeasured(workload, f"none of {len(ordered)} candidates could be measured", ordered)
    best = ordered[0]
    when = "an earlier measurement" if is_cached else "a measurement"
    reason = f"{best.name} is the fastest of {len(ordered)} in {when}, {best.median_secs * 1e3:.1f} ms a step"
    second = ordered[1:2]
    if second and not second[0].error:
        reason += f", before {second[0].name} with {second[0].median_secs * 1e3:.1f} ms"
    return MeasuredChoice(make_candidate(best.name, workload.devices), reason, ordered, is_cached)


def _unmeasured(workload: Workload, why: str, rows: tuple[Measurement, ...] = ()) -> MeasuredChoice:
    copying = choose_by_kind(workload.devices)
    return MeasuredChoice(copying.reducer, f"{why}; {copying.reason}", rows)
