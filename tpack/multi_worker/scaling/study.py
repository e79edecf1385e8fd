"""Designs of a training on many workers, the time of their steps, and the best of them."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.base import Cast, Codec
from tpack.multi_worker.scaling.network import NetworkSpeed, measure_codec, read_json
from tpack.multi_worker.scaling.schedule import (
    GradientSpec,
    Place,
    Schedule,
    all_reduce_schedule,
    server_schedule,
    sharded_schedule,
    with_stop_flag,
)
from tpack.multi_worker.scaling.simulator import Computation, Machine, StepTime, simulate_step
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_arguments, check_count, check_number, mismatch

_names = LazyModule("tpack.multi_worker.codecs.names")

FORWARD = 1 / 3
"""The share of a step's computation before the first gradient, where there is no trace."""

_MEASURED_ELEMENTS = 2**20
_COUNTS = {"ps": "servers", "accumulate": "accumulate", "sync": "sync_every_steps"}
_GRAMMAR = "replicated, sharded, ps=2, levels=2, bucket=16, accumulate=4, sync=8, int8, top_k:0.01, ... joined by +"


@check_arguments
@dataclass(frozen=True)
class Workload:
    """Computation of each worker, and its gradients.

    Args:
        gradients: the gradients of the model, and when each is ready.
        step_secs: a step's computation.
        jitter_secs: its standard deviation from step to step.

    Raises:
        ConfigError: A number is out of range, or there are no gradients.
    """

    gradients: Sequence[GradientSpec]
    step_secs: float
    jitter_secs: float = 0.0

    def __post_init__(self) -> None:
        check_number(self, "step_secs", self.step_secs, 0)
        check_number(self, "jitter_secs", self.jitter_secs, 0)
        if not self.gradients:
            raise ConfigError(mismatch(self, "gradients", (), "at least one"))

    @staticmethod
    def of_shapes(
        shapes: Sequence[Sequence[int]], step_secs: float, jitter_secs: float = 0.0, dtype: str = "float32"
    ) -> "Workload":
        """Return a workload without a trace.

        The last two thirds of the computation are taken for the backward pass, in which gradients become ready at equal
        distances, the last one first.
        """
        count = len(shapes)
        gradients = [
            GradientSpec(f"gradient{n}", tuple(shape), dtype, FORWARD + (1 - FORWARD) * (count - n) / count)
            for n, shape in enumerate(shapes)
        ]
        return Workload(gradients, step_secs, jitter_secs)

    @staticmethod
    def read(path: str) -> "Workload":
        """Read the file that `Profile` writes, ``profile-10-15.gradients.json``.

        Raises:
            ConfigError: The file does not exist, or holds something else.
        """
        found = read_json(path)
        try:
            gradients = [
                GradientSpec(each["name"], tuple(each["shape"]), each["dtype"], min(1.0, each["ready"]), each["sparse"])
                for each in found["gradients"]
            ]
            return Workload(gradients, found["step_secs"], found["jitter_secs"])
        except (KeyError, TypeError) as error:
            raise ConfigError(
                f"Workload.read got {path}: expected the gradients.json that Profile writes ({error!r} is missing)"
            ) from error

    @property
    def size_bytes(self) -> int:
        """The bytes of all gradients."""
        return sum(each.size_bytes for each in self.gradients)


@check_arguments
@dataclass(frozen=True)
class Design:
    """One way to train on many workers.

    Args:
        text: its name.
        trainer: ``"replicated"``, ``"sharded"`` for a divided state of the optimizer, or ``"ps"``.
        exchange: the options of the exchange between workers.
        accumulate: the number of steps whose gradients are added before an exchange.
        sync_every_steps: the number of steps of each worker by itself before weights are averaged; 1 exchanges
            gradients.
        servers: the number of parameter servers, of the trainer ``"ps"``.

    Raises:
        ConfigError: A number is out of range.
    """

    text: str = "replicated"
    trainer: Literal["replicated", "sharded", "ps"] = "replicated"
    exchange: Exchange = field(default_factory=Exchange)
    accumulate: int = 1
    sync_every_steps: int = 1
    servers: int = 1

    def __post_init__(self) -> None:
        for name in ("accumulate", "sync_every_steps", "servers"):
            check_count(self, name, getattr(self, name))

    @staticmethod
    def parse(text: str) -> "Design":
        """Return the design for a text such as ``"int8+levels=2+bucket=16"``.

        Its parts: ``replicated``, ``sharded`` or ``ps=`` with a number of servers; ``levels=1``, ``2`` or
        ``machines``; ``bucket=`` in MiB; ``accumulate=`` and ``sync=`` in steps; and a text of `make_exchange`.

        Raises:
            ConfigError: A part is unknown, or a number is out of range.
        """
        design: dict[str, Any] = {}
        how: dict[str, Any] = {}
        exchange = Exchange()
        for part in text.split("+"):
            key, _, value = part.partition("=")
            if part in ("replicated", "sharded"):
                design["trainer"] = part
            elif key in _COUNTS and value:
                design[_COUNTS[key]] = _count(text, value)
            elif key == "levels":
                how["levels"] = value if value == "machines" else _count(text, value)
            elif key == "bucket":
                how["bucket_bytes"] = _count(text, value) * 2**20
            else:
                exchange = _exchange(text, part)
        if "servers" in design:
            design["trainer"] = "ps"
        return Design(text, exchange=replace(exchange, **how), **design)

    @property
    def codecs(self) -> list[Codec]:
        """The codec of the exchange, and the rounding to another dtype, if any."""
        how = self.exchange
        rounding = None if how.wire_dtype is None else Cast(how.wire_dtype)
        return [codec for codec in (how.codec, rounding) if codec is not None]

    def schedule(self, workload: Workload, place: Place) -> tuple[Schedule, list[GradientSpec]]:
        """Return the schedule of a step with an exchange, and the gradients to which its numbers refer.

        Raises:
            ConfigError: The trainer cannot train so.
        """
        gradients = with_stop_flag(workload.gradients)
        if self.trainer == "ps":
            return server_schedule(gradients[1:], place.workers, self.servers), gradients[1:]
        if self.trainer == "sharded":
            return sharded_schedule(gradients, self.exchange, place), gradients
        if self.sync_every_steps > 1:
            weights = [replace(each, ready=1.0, is_sparse=False) for each in gradients]
            wide = replace(self.exchange, has_wide_sums=True)
            return all_reduce_schedule(weights, wide, place), weights
        return all_reduce_schedule(gradients, self.exchange, place), gradients


def _count(text: str, value: str) -> int:
    if not value.isdigit() or not int(value):
        raise ConfigError(mismatch("Design.parse", "text", text, _GRAMMAR))
    return int(value)


def _exchange(text: str, part: str) -> Exchange:
    try:
        made: Exchange = _names.make_exchange(part)
        return made
    except ConfigError as error:
        raise ConfigError(mismatch("Design.parse", "text", text, _GRAMMAR)) from error


@dataclass(frozen=True)
class Prediction:
    """A simulated design.

    Attributes:
        design: its name.
        workers: W.
        step: the mean of a step; of several steps where one of them exchanges.
        alone_secs: a step of one worker.
        sent_bytes: the bytes that a worker sends in a step, the mean.
        messages: likewise its messages.
    """

    design: str
    workers: int
    step: StepTime
    alone_secs: float
    sent_bytes: float
    messages: float

    @property
    def share(self) -> float:
        """The share of linear scaling."""
        return self.alone_secs / self.step.secs

    def figures(self) -> dict[str, Any]:
        """Return what a JSON file has of it."""
        own = {"design": self.design, "workers": self.workers, "step_secs": self.step.secs, "share": self.share}
        rest = {"sent_bytes": self.sent_bytes, "messages": self.messages, "limit": self.step.limit}
        return {**own, **rest, "causes": self.step.causes}


@check_arguments
def predict(
    design: Design, workload: Workload, network: NetworkSpeed, workers: int, *, per_machine: int = 1, rank: int = 0
) -> Prediction:
    """Simulate a design.

    Args:
        design: the design.
        workload: what each worker computes.
        network: the measured numbers.
        workers: W.
        per_machine: the number of workers of a machine.
        rank: the worker that is simulated.

    Raises:
        ConfigError: A number is out of range, or the design cannot be run by so many.
    """
    check_count("predict", "workers", workers)
    shared = min(workers, check_count("predict", "per_machine", per_machine))
    schedule, gradients = design.schedule(workload, Place(workers, rank, shared))
    period = max(design.accumulate, design.sync_every_steps)
    computation = Computation(
        workload.step_secs, [each.ready for each in gradients], workload.jitter_secs * period**0.5
    )
    machine = Machine(network.cores, shared, network.cores)
    step = simulate_step(schedule, computation, network, machine, workers, codec=next(iter(design.codecs), None))
    alone_secs = workload.step_secs + network.step_secs
    causes = {cause: secs / period for cause, secs in step.causes.items()}
    causes["computation"] += (period - 1) / period * workload.step_secs
    causes["other"] += (period - 1) / period * network.step_secs
    mean = StepTime((step.secs + (period - 1) * alone_secs) / period, causes)
    sent, messages = schedule.sent_bytes / period, schedule.messages / period
    return Prediction(design.text, workers, mean, alone_secs, sent, messages)


def predictions(
    designs: Sequence[Design],
    workload: Workload,
    network: NetworkSpeed,
    workers: Sequence[int],
    *,
    per_machine: int = 1,
) -> Iterator[Prediction]:
    """Simulate each design with each number of workers; those that so many cannot run are left out."""
    for design in designs:
        for count in workers:
            try:
                yield predict(design, workload, network, count, per_machine=per_machine)
            except ConfigError:
                if design.trainer != "sharded":
                    raise


def best_designs(found: Sequence[Prediction]) -> Mapping[int, Prediction]:
    """Return the design with the shortest step for each number of workers."""
    best: dict[int, Prediction] = {}
    for each in found:
        if each.workers not in best or each.step.secs < best[each.workers].step.secs:
            best[each.workers] = each
    return dict(sorted(best.items()))


def with_codecs(network: NetworkSpeed, designs: Sequence[Design], workload: Workload) -> NetworkSpeed:
    """Return the numbers with the codecs of the designs, measured on this machine where they are not known.

    They are measured with the gradients of a bucket.
    """
    known = dict(network.codecs)
    for codec in (codec for design in designs for codec in design.codecs):
        shapes = [each.shape for each in workload.gradients if not each.is_sparse and codec.takes(each.shape)]
        if shapes and repr(codec) not in known:
            sizes = itertools.accumulate(math.prod(shape) for shape in shapes)
            count = sum(1 for size in sizes if size <= _MEASURED_ELEMENTS)
            known[repr(codec)] = measure_codec(codec, shapes[: max(1, count)])
    return replace(network, codecs=known)
