"""``tpack data bench``: the speed of each stage of a data flow, and the parts of a data point's time.

The flow belongs to a script or module. TensorFlow is imported only if the script does it. Each flow in the flow is run
by itself, from the source outwards: the cost of a stage is the time of one of its points less that of the points it
takes for it. Workers and queues run as in training; functions that run in workers are measured in this process, too.
"""

import argparse
import importlib
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tabulate import tabulate

from tpack.dataflow.adapters import as_dataflow
from tpack.dataflow.base import DataFlow, close_flow, length_or_none, wrapped_flows
from tpack.dataflow.batch import BatchData
from tpack.dataflow.iterator_state import close_iterator
from tpack.dataflow.mapping import MapData
from tpack.dataflow.repeat import RepeatedDataPoint
from tpack.errors import ConfigError, DataExhaustedError, WrongTypeError
from tpack.utils.env import usable_cores
from tpack.utils.validation import check_arguments, check_number

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_SHARE_TO_TELL = 0.1
"""Stages below this share of the time are not reported."""
_GOOD_SHARE = 0.75
"""The share of the ideal speed-up from which workers count as well used."""


_WARMUP = 0.25
"""The part of the time before the clock starts in which points are taken; at most eight times that to empty buffers."""


@dataclass(frozen=True)
class Stage:
    """The measurements of one flow in a flow.

    Attributes:
        flow: the flow.
        depth: the number of flows around it.
        inner: the numbers of the stages that it takes points from.
        taken: the average number of points of each of them for one of its own.
        seconds: the time of one of its points, those inside included.
        alone_secs: with workers, the time of one of its points without them; else None.
        num_workers: the number of its processes or threads; 0 for none.
    """

    flow: DataFlow
    depth: int
    inner: tuple[int, ...]
    taken: tuple[float, ...]
    seconds: float
    alone_secs: float | None
    num_workers: int

    @property
    def name(self) -> str:
        """The kind of flow with its main arguments."""
        kind = type(self.flow).__name__
        function = getattr(self.flow, "map_func", None) or getattr(self.flow, "func", None)
        parts = [] if function is None else [_name_of(function)]
        size = getattr(self.flow, "batch_size", None)
        parts += [f"{size} points"] if isinstance(size, int) else []
        parts += [self.workers] if self.num_workers else []
        return f"{kind}({', '.join(parts)})" if parts else kind

    @property
    def workers(self) -> str:
        """The number of its processes or threads, in words."""
        one, several = ("process", "processes") if hasattr(self.flow, "num_proc") else ("thread", "threads")
        return f"{self.num_workers} {one if self.num_workers == 1 else several}"

    def own_secs(self, stages: Sequence["Stage"]) -> float:
        """Return the time of a point in this stage alone; negative where workers make up for more."""
        return self.seconds - sum(
            taken * stages[index].seconds for index, taken in zip(self.inner, self.taken, strict=True)
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = "Look at the data of a training."
    commands = parser.add_subparsers(dest="what", required=True, metavar="WHAT", parser_class=argparse.ArgumentParser)
    bench = commands.add_parser("bench", help="measure each stage of a flow")
    bench.description = (
        "Run each flow in a flow by itself, from the source outwards; print how many points it gives in a second, what "
        "it costs a point, and where the time goes."
    )
    bench.add_argument("flow", metavar="SCRIPT:FLOW", help="a .py file or a module, and a flow in it or a function")
    bench.add_argument("--seconds", type=float, default=2.0, help="how long to measure each stage (2)")
    bench.set_defaults(run=run, loads_tensorflow=True)


def run(options: argparse.Namespace) -> str:
    """Measure a flow; return a table of its stages, and an explanation.

    Raises:
        ConfigError: The script or flow does not exist, or the time is not positive.
        InputError: The flow raised, or has no data point.
    """
    ds = load_flow(options.flow)
    stages = measure_stages(ds, options.seconds)
    headers = ("stage", "points/s", "a point", "of it here")
    align = ("left", "right", "right", "right")
    # Tables drop blanks in front of a cell, but not dots.
    rows = [
        (". " * stage.depth + stage.name, _rate(stage.seconds), _time(stage.seconds), _own(stage, stages))
        for stage in stages
    ]
    table = tabulate(rows, headers, "plain", disable_numparse=True, colalign=align)
    return f"{table}\n\n" + "\n".join(explain(stages, usable_cores())) + "\n"


def load_flow(text: str) -> DataFlow:
    """Return the flow that ``script.py:name`` or ``module:name`` stands for.

    Args:
        text: a file or an importable module, and in it a flow, something that `as_dataflow` accepts, or a function
            without arguments that returns one.

    Raises:
        ConfigError: The file, module or name does not exist, cannot be run, or is something else.
    """
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier():
        raise ConfigError(f"got {text!r}: expected SCRIPT:FLOW, such as train.py:make_flow")
    found = _load(place)
    if not hasattr(found, name):
        flows = sorted(key for key, value in vars(found).items() if isinstance(value, DataFlow))
        raise ConfigError(f"{place} has no {name!r}{'; it has the flows ' if flows else ''}{', '.join(flows)}")
    made = getattr(found, name)
    if callable(made) and not isinstance(made, DataFlow):
        parameters = inspect.signature(made).parameters.values()
        if needed := [each.name for each in parameters if each.default is each.empty and each.kind not in _VARIADIC]:
            raise ConfigError(f"{text} has the arguments {', '.join(needed)}: expected defaults for them")
        made = made()
    try:
        return as_dataflow(made)
    except WrongTypeError as error:
        raise ConfigError(f"{text} is not a data flow: {error}") from error


def _load(place: str) -> ModuleType:
    """Import a file or a module; a file is not the main module, so code guarded by ``__name__`` does not run."""
    is_file = place.endswith(".py")
    if is_file and not os.path.isfile(place):
        raise ConfigError(f"flow got {place!r}: expected a file that exists")
    # Workers find it by the same name and path.
    sys.path.insert(0, os.path.dirname(os.path.abspath(place)) if is_file else os.getcwd())
    module = os.path.splitext(os.path.basename(place))[0] if is_file else place
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"{place} cannot be imported: {error}") from error


def _own(stage: Stage, stages: Sequence[Stage]) -> str:
    """Return the cost of a stage by itself, or the speed-up of its workers over one process."""
    if stage.alone_secs is None:
        return _time(max(stage.own_secs(stages), 0.0))
    return f"{stage.alone_secs / stage.seconds:.2f} x one"


def explain(stages: Sequence[Stage], num_cores: int) -> list[str]:
    """Return sentences about the parts of a point's time, and ways to reduce them with ``num_cores`` cores."""
    last = stages[-1]
    size = getattr(last.flow, "batch_size", None)
    examples = f", {size / last.seconds:,.0f} examples," if isinstance(size, int) else ""
    lines = [
        f"The flow gives {_rate(last.seconds)} points{examples} a second: a step that takes less than "
        f"{_time(last.seconds)} waits for data."
    ]
    costs = _costs(stages, len(stages) - 1)
    total = sum(costs.values())
    shares = {index: cost / total for index, cost in costs.items()}
    order = sorted((index for index in shares if shares[index] >= _SHARE_TO_TELL), key=lambda index: -shares[index])
    parts = [f"{shares[index]:.0%} goes into {stages[index].name}" for index in order]
    lines.append(f"Of its time {', '.join(parts)}.")
    lines += [_about_workers(stages, index, num_cores) for index in order if stages[index].num_workers]
    if not any(stage.num_workers for stage in stages):
        lines.append(
            f"All of it runs in one process: MultiProcessRunner(flow, num_prefetch=200, num_proc={num_cores}) would "
            f"share it out, or MultiProcessMapData(ds, {num_cores}, function) what one function does."
        )
    elif not stages[order[0]].num_workers:
        lines.append(
            f"{stages[order[0]].name} runs after the workers, in the process that takes the points: put it inside of "
            "theirs."
        )
    return lines


def _about_workers(stages: Sequence[Stage], index: int, num_cores: int) -> str:
    """Return a sentence about the workers of a stage."""
    stage = stages[index]
    faster = (stage.alone_secs or 0.0) / stage.seconds
    best = min(stage.num_workers, num_cores)
    source = sum(taken * stages[number].seconds for number, taken in zip(stage.inner, stage.taken, strict=True))
    if faster < 1:
        return (
            f"{stage.name} gives less than one process without it, {_rate(stage.alone_secs or 0.0)} a second: its "
            "points cost more to send than to make."
        )
    if faster >= _GOOD_SHARE * best:
        inside = _costs(stages, stage.inner[0]) if not hasattr(stage.flow, "map_func") else {}
        most = f", of which {stages[max(inside, key=lambda k: inside[k])].name} is the most" if inside else ""
        way = "more of them are faster" if stage.num_workers < num_cores else f"what is left is cheaper work{most}"
        return f"{stage.workers} of {stage.name} give {faster:.1f} times one, on {num_cores} core(s): {way}."
    if hasattr(stage.flow, "map_func") and source >= _GOOD_SHARE * stage.seconds:
        return (
            f"The workers of {stage.name} wait for its source, which gives {_rate(source)} a second in one process: "
            "let the source do less, and the function more."
        )
    return (
        f"{stage.workers} of {stage.name} give {faster:.1f} times one, and could give {best}: the rest goes into "
        "sending the points, and into what else runs here."
    )


def _costs(stages: Sequence[Stage], index: int, times: float = 1.0) -> dict[int, float]:
    """Return the part of each stage in the time of ``times`` points of one; workers include their inner stages."""
    stage = stages[index]
    if stage.num_workers:
        return {index: times * stage.seconds}
    costs = {index: times * max(stage.own_secs(stages), 0.0)}
    for number, taken in zip(stage.inner, stage.taken, strict=True):
        costs.update(_costs(stages, number, times * taken))
    return costs


def _rate(seconds: float) -> str:
    return f"{1 / seconds:,.0f}" if seconds < 0.01 else f"{1 / seconds:,.1f}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:,.3g} us"


@check_arguments
def measure_stages(ds: DataFlow, seconds: float = 2.0, clock: Callable[[], float] = time.perf_counter) -> list[Stage]:
    """Run each flow in a flow by itself and measure it.

    Flows are reset, and passes that end are begun again. Nothing stays open. The stages come from the sources outwards.

    Args:
        ds: the flow.
        seconds: the time to measure each stage; more if a point takes longer or a buffer is emptied first.
        clock: returns the time in seconds.

    Raises:
        DataExhaustedError: A flow has no data point.
        ConfigError: The time is not positive.
    """
    check_number("measure_stages", "seconds", seconds, low=0, is_low_allowed=False)
    stages: list[Stage] = []

    def measure(flow: DataFlow, depth: int) -> int:
        sources = wrapped_flows(flow)
        # The threads of a runner have similar flows.
        sources = sources[:1] if hasattr(flow, "num_thread") else sources
        inner = tuple(measure(source, depth + 1) for source in sources)
        took = _seconds_a_point(flow, seconds, clock)
        workers = getattr(flow, "num_proc", getattr(flow, "num_thread", 0))
        alone = _alone(flow, sources[0], seconds, clock) if workers and sources else None
        stages.append(Stage(flow, depth, inner, _taken(flow, sources), took, alone, workers))
        return len(stages) - 1

    measure(ds, 0)
    return stages


def _alone(flow: Any, source: DataFlow, seconds: float, clock: Callable[[], float]) -> float:
    """Return the time of a point of a flow with workers in this process."""
    if not hasattr(flow, "map_func"):
        return _seconds_a_point(source, seconds, clock)
    mapped: DataFlow = MapData(source, flow.map_func)
    size = getattr(flow, "batch_size", None)
    return _seconds_a_point(mapped if size is None else BatchData(mapped, size), seconds, clock)


def _taken(flow: Any, sources: list[DataFlow]) -> tuple[float, ...]:
    """Return the number of points of each source for a point of a flow."""
    if isinstance(flow, RepeatedDataPoint):
        return (1 / flow.num,)
    if len(sources) == 1:
        size = getattr(flow, "batch_size", 1)
        return (float(size) if isinstance(size, int) else 1.0,)
    own, lengths = length_or_none(flow), [length_or_none(source) for source in sources]
    known = [length for length in lengths if length is not None]
    # One after the other, or mixed: its share of each. Side by side: one of each.
    if own is not None and own == sum(known) and len(known) == len(lengths):
        return tuple(length / own for length in known)
    return tuple(1.0 for _ in sources) if own is not None else tuple(1 / len(sources) for _ in sources)


def _seconds_a_point(ds: DataFlow, seconds: float, clock: Callable[[], float]) -> float:
    ds.reset_state()
    points = _endless(ds)
    try:
        _warm_up(ds, points, seconds * _WARMUP, clock)
        count, begin = 0, clock()
        while (took := clock() - begin) < seconds or count == 0:
            next(points)
            count += 1
        return took / count
    finally:
        close_iterator(points)
        ds.end_pass()
        close_flow(ds)


def _warm_up(ds: DataFlow, points: Iterator[Any], seconds: float, clock: Callable[[], float]) -> None:
    """Take points until files are open, workers run and buffers of earlier points are empty."""
    ahead = max(getattr(ds, name, 0) or 0 for name in ("buffer_size", "num_prefetch", "_prefetch"))
    next(points)
    begin, count = clock(), 1
    while clock() - begin < seconds or (count <= ahead and clock() - begin < 8 * seconds):
        next(points)
        count += 1


def _endless(ds: DataFlow) -> Iterator[Any]:
    while True:
        is_empty = True
        for point in ds:
            is_empty = False
            yield point
        if is_empty:
            raise DataExhaustedError(f"{type(ds).__name__} has no data point: expected at least one to measure")


def _name_of(function: Any) -> str:
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", type(inner).__name__)).replace("<lambda>", "a lambda")
