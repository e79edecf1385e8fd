"""The numbers of a network and of the processors at its ends, and their fit to measured exchanges.

The processor's time of an exchange is a sum of parts, whatever else the machine does meanwhile: of a step, of each peer
that is called in it, of each message, of each byte that is sent, and of each byte that is added or copied. So they are
fitted to the processor's time of exchanges of various sizes by least squares. Latency and bandwidth are measured by
themselves.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, pairwise
from statistics import median
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.base import Codec
from tpack.multi_worker.scaling.schedule import CallsOfCodec, GradientSpec, Place, Schedule, all_reduce_schedule
from tpack.utils.fs import atomic_write
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_arguments, check_number, mismatch

_link_benchmark = LazyModule("tpack.multi_worker.scaling.link_benchmark")


@check_arguments
@dataclass(frozen=True)
class NetworkSpeed:
    """Speed of a network, and of the processors that send and receive.

    Args:
        latency_secs: a hop of a message without its processing.
        bandwidth: bytes a second of a link in each direction; infinite on one machine.
        message_secs: the processor's time of a message, of both ends together.
        peer_secs: that of a call of a peer, one for each in a step.
        call_share: the share of it when the step begins; the rest follows when it ends.
        byte_secs: that of a byte that is sent, of both ends together.
        sum_secs: that of a byte that is added to others, or copied.
        step_secs: that of a step without computation and exchange.
        codecs: {text of a codec: seconds of its encoding and decoding of an element}.
        cores: those of a machine.
        probes: {number of workers: the processor's seconds of each of `PROBES`}, to which the numbers were fitted.

    Raises:
        ConfigError: A number is out of range.
    """

    latency_secs: float
    bandwidth: float
    message_secs: float
    peer_secs: float
    byte_secs: float
    sum_secs: float
    step_secs: float = 0.0
    call_share: float = 0.5
    codecs: Mapping[str, Sequence[float]] = field(default_factory=dict)
    cores: float = 1.0
    probes: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("codecs", "probes"):
                continue
            is_positive = name in ("bandwidth", "cores")
            if value != math.inf:
                check_number(self, name, value, 0, is_low_allowed=not is_positive)

    def codec_secs(self, codec: Codec | None) -> tuple[float, float]:
        """Return the seconds of the encoding and of the decoding of an element; none where they were not measured."""
        encode, decode = self.codecs.get(repr(codec), (0.0, 0.0))
        return float(encode), float(decode)

    def over(self, bandwidth: float, delay_secs: float = 0.0) -> "NetworkSpeed":
        """Return the same processors at links of so many bytes a second, with a delay beside the measured latency."""
        return replace(self, bandwidth=bandwidth, latency_secs=self.latency_secs + delay_secs)

    def describe(self) -> str:
        """Return a line with the numbers."""
        return (
            f"a hop {self.latency_secs * 1e6:.0f} us, {self.bandwidth / 1e9:.2f} GB/s; of the processor: a message "
            f"{self.message_secs * 1e6:.0f} us, a peer {self.peer_secs * 1e6:.0f} us, a gigabyte sent "
            f"{self.byte_secs * 1e9:.2f} s, added {self.sum_secs * 1e9:.2f} s"
        )

    def with_cores(self, cores: float) -> "NetworkSpeed":
        """Return the same network between machines of so many cores."""
        return replace(self, cores=cores)

    def write(self, path: str) -> None:
        """Write it to a JSON file, completely or not at all."""
        numbers = {name: None if value == math.inf else value for name, value in asdict(self).items()}
        with atomic_write(path) as file:
            json.dump(numbers, file, indent=2)
            file.write("\n")

    @staticmethod
    def read(path: str) -> "NetworkSpeed":
        """Read it from a JSON file.

        Raises:
            ConfigError: The file does not exist, or holds something else.
        """
        numbers = read_json(path)
        known = NetworkSpeed.__dataclass_fields__
        if not isinstance(numbers, dict) or not set(numbers) <= set(known):
            raise ConfigError(
                f"NetworkSpeed.read got {path}: expected what tpack cluster check --json writes: {', '.join(known)}"
            )
        if numbers.get("bandwidth", 0) is None:
            numbers["bandwidth"] = math.inf
        try:
            return NetworkSpeed(**numbers)
        except TypeError as error:
            raise ConfigError(f"NetworkSpeed.read got {path}: expected all of its numbers: {error}") from error


def read_json(path: str) -> Any:
    """Return the content of a JSON file.

    Raises:
        ConfigError: It does not exist, or is something else.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise ConfigError(mismatch("tpack scale", "file", path, f"a JSON file ({error})")) from error


@dataclass(frozen=True)
class MeasuredExchange:
    """An exchange that was measured.

    Attributes:
        schedule: that of a worker.
        processor_secs: the processor's time that it adds to a step of a worker, the mean over the workers.
    """

    schedule: Schedule
    processor_secs: float

    def parts(self) -> list[float]:
        """Return the numbers of peers, messages, sent bytes and added bytes."""
        schedule = self.schedule
        summed = sum(work.summed_bytes for course in schedule.courses for work in course.works)
        return [schedule.peers, schedule.messages, schedule.sent_bytes, summed]


def fit_processor(points: Sequence[MeasuredExchange], sum_secs: float) -> dict[str, float]:
    """Return ``peer_secs``, ``message_secs`` and ``byte_secs``, none of them negative.

    The sum of the squares of relative errors is least.

    Args:
        points: measured exchanges of several sizes.
        sum_secs: see `NetworkSpeed`.
    """
    parts = np.array([point.parts() for point in points], float)
    measured = np.array([point.processor_secs for point in points])
    rows, secs = parts[:, :3] / measured[:, None], (measured - parts[:, 3] * sum_secs) / measured
    best, least = np.zeros(3), math.inf
    # There are few sets of parts that may be other than zero.
    for chosen in (list(each) for count in range(1, 4) for each in combinations(range(3), count)):
        scale = np.linalg.norm(rows[:, chosen], axis=0)
        scale[scale == 0] = 1.0
        found = np.linalg.lstsq(rows[:, chosen] / scale, secs, rcond=None)[0] / scale
        error = float(np.sum((rows[:, chosen] @ found - secs) ** 2))
        if (found >= 0).all() and error < least * (1 - 1e-9):
            best, least = np.zeros(3), error
            best[chosen] = found
    return dict(zip(("peer_secs", "message_secs", "byte_secs"), map(float, best), strict=True))


def network_of(speed: Any) -> NetworkSpeed:
    """Return the numbers of a cluster.

    Args:
        speed: the `ClusterSpeed`.

    Raises:
        ConfigError: Processors were not measured: see `LinkOptions`.
    """
    if not speed.probes:
        raise ConfigError("network_of got no probes: expected a ClusterSpeed of LinkOptions(with_processors=True)")
    probes = {str(1 + speed.pairs[-1].second): speed.probes}
    fitted = _fit_probes(probes, speed.sum_secs)
    return NetworkSpeed(
        latency_secs=max(0.0, median(pair.latency_secs for pair in speed.pairs) - fitted["message_secs"]),
        bandwidth=median(rate for pair in speed.pairs for rate in (pair.there, pair.back)),
        sum_secs=speed.sum_secs,
        step_secs=speed.step_secs,
        peer_secs=fitted["peer_secs"],
        call_share=_share(speed.call_secs, speed.pairs[-1].second * fitted["peer_secs"]),
        message_secs=fitted["message_secs"],
        byte_secs=fitted["byte_secs"],
        cores=speed.cores,
        probes=probes,
    )


def merged(networks: Sequence[NetworkSpeed]) -> NetworkSpeed:
    """Return the numbers of one cluster that was measured several times, with one or several numbers of workers.

    Raises:
        ConfigError: There are several without the probes to which they were fitted.
    """
    if len(networks) == 1:
        return networks[0]
    if not all(network.probes for network in networks):
        raise ConfigError("several networks got no probes: expected what tpack cluster check --json writes; use one")
    numbers = {"call_share": median(network.call_share for network in networks)}
    # Other load of the machines makes these worse, never better.
    for name in ("sum_secs", "step_secs", "latency_secs"):
        numbers[name] = min(getattr(network, name) for network in networks)
    numbers["bandwidth"] = max(network.bandwidth for network in networks)
    probes: dict[str, list[float]] = {}
    for size, secs in (each for network in networks for each in network.probes.items()):
        probes[size] = [min(pair) for pair in zip(probes.get(size, secs), secs, strict=True)]
    codecs = {name: secs for network in networks for name, secs in network.codecs.items()}
    numbers |= _fit_probes(probes, numbers["sum_secs"])
    return replace(networks[0], **numbers, codecs=codecs, probes=probes)


def _share(part: float, whole: float) -> float:
    return min(1.0, part / whole) if whole else 0.0


def _fit_probes(probes: Mapping[str, Sequence[float]], sum_secs: float) -> dict[str, float]:
    points = [
        MeasuredExchange(_schedule_of_probe(number, int(workers)), secs)
        for workers, measured in probes.items()
        for number, secs in enumerate(measured)
    ]
    return fit_processor(points, sum_secs)


def _schedule_of_probe(number: int, workers: int) -> Schedule:
    count, num_elements, bucket_bytes = _link_benchmark.PROBES[number]
    gradients = [GradientSpec(f"array{n}", (num_elements,)) for n in range(count)]
    return all_reduce_schedule(gradients, Exchange(bucket_bytes=bucket_bytes, levels=1), Place(workers))


@check_arguments
def measure_codec(codec: Codec, shapes: Sequence[Sequence[int]], *, runs: int = 15) -> tuple[float, float]:
    """Return the processor's seconds in which this machine encodes and decodes an element of some float32 gradients.

    A codec with a course of its own, such as `PowerSGD`, has all of its work in the first number.

    Args:
        codec: the codec.
        shapes: those of gradients that it takes.
        runs: the number of repetitions; the median counts.
    """
    count = sum(map(math.prod, shapes))
    with tf.Graph().as_default(), tf.device("/device:CPU:0"):
        link = CallsOfCodec.make(lambda *_: None)
        gradients = [
            tf.get_variable(f"values{n}", initializer=tf.random.stateless_normal(shape, [1, n]), use_resource=True)
            for n, shape in enumerate(shapes)
        ]
        values = [gradient.read_value() for gradient in gradients]
        if type(codec).reduce is Codec.reduce:
            joined = tf.concat([tf.reshape(value, [-1]) for value in values], axis=0)
            parts = codec.encode(joined, link.state)
            ops = [joined.op, tf.group(*parts), codec.decode(parts, count, tf.float32).op]
        else:
            encoded = tf.group(*codec.reduce(link, values))
            ops = [tf.group(*values), encoded, encoded]
        config = tf.ConfigProto(intra_op_parallelism_threads=1)
        # It would leave out what nothing but a group needs.
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(config=config) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            before, encoding, both = _processor_secs(session, ops, runs)
    return max(0.0, encoding - before) / count, max(0.0, both - encoding) / count


def _processor_secs(session: tf.Session, ops: Sequence[tf.Operation], runs: int) -> list[float]:
    """Return the median of the processor's seconds of each operation; they take turns."""
    steps = [session.make_callable(op) for op in ops]
    rounds = []
    for _ in range(runs + 1):
        times = [time.process_time()]
        for step in steps:
            step()
            times.append(time.process_time())
        rounds.append([end - begin for begin, end in pairwise(times)])
    return [median(secs) for secs in zip(*rounds[1:], strict=True)]
