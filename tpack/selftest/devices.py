"""Checks of the devices themselves: that they are found, compute right, let memory grow, and copy right, and how fast.

Numbers are whole and small, so that sums are exact in float32, and products too where GPUs round them to 11 bits.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.runtime import make_callable
from tpack.errors import DependencyError, DeviceError
from tpack.selftest.runner import Finding, Machine, Skipped, Wrong
from tpack.tfutils.collect_env import collect_env_info
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.tower.devices import list_gpus
from tpack.utils.env import usable_cores
from tpack.utils.gpu import NVMLContext, get_num_gpu

LOGICAL_DEVICES = 4
HOST = "/device:CPU:0"

_GPU_ADVICE = (
    "TensorFlow lacks NVIDIA's libraries: pip install 'tensorflow[and-cuda]'. "
    'TF_CPP_MAX_VLOG_LEVEL=1 python -c "import tensorflow; tensorflow.config.list_physical_devices()" names them.'
)
PLACE_ADVICE = "TensorFlow moved it: the device lacks a kernel or does not work; look at nvidia-smi."
_ROUNDS = 5
_MATRIX, _IMAGE, _KERNEL = 256, (8, 16, 16, 8), (3, 3, 8, 16)
# Whole numbers; the fast algorithms for convolutions are off by less.
_TOLERANCE = 0.5

_COPIES = 8
_COPY_FLOATS = {"GPU": 8 << 20, "CPU": 1 << 18}
_COPY_ROUNDS = 3
_PATTERN = 1021
_SLOW_SHARE = 0.25
_GIGA = 1e9


def load_tensorflow() -> Finding:
    """Return the version of TensorFlow, which this module has loaded."""
    return Finding(tf.version.VERSION)


def find_devices(num_devices: int | None) -> Finding:
    """Find the GPUs, or logical CPU devices in their place, and compare them with what the driver says.

    Raises:
        Wrong: TensorFlow sees fewer GPUs than the driver, or than were asked for.
    """
    gpus, of_driver = list_gpus(), get_num_gpu()
    count, names = num_devices or len(gpus) or LOGICAL_DEVICES, _names_of_gpus()
    kind = "GPU" if gpus else "CPU"
    found = gpus[:count] if gpus else [f"/device:CPU:{k}" for k in range(count)]
    figures = {
        "kind": kind,
        "devices": found,
        "names": names or ["logical CPU device"] * len(found),
        "gpus_of_driver": of_driver,
        "cores": usable_cores(),
        "environment": collect_env_info(),
    }
    if of_driver > len(gpus):
        listed = f"the driver or CUDA_VISIBLE_DEVICES lists {of_driver} GPU(s)"
        text = f"{listed}, TensorFlow sees {len(gpus)}: training would be on {len(gpus) or 'none'} of them"
        raise Wrong(text, _GPU_ADVICE, figures)
    if gpus and count > len(gpus):
        raise Wrong(f"{count} devices were asked for, and there are {len(gpus)}", "Lower --devices.", figures)
    if gpus:
        return Finding(f"{len(found)} GPU(s): {names[0] if names else 'GPU'}", figures)
    text = f"no GPU; {count} logical CPU devices share {figures['cores']} core(s), so speed says nothing about GPUs"
    return Finding(text, figures)


def _names_of_gpus() -> list[str]:
    return [str(details.get("device_name", "GPU")) for details in _details_of_gpus()]


def compute_capability() -> tuple[int, int]:
    """Return the lowest compute capability of the GPUs; (0, 0) if TensorFlow does not tell it."""
    return min((details.get("compute_capability", (0, 0)) for details in _details_of_gpus()), default=(0, 0))


def _details_of_gpus() -> list[dict[str, Any]]:
    return [tf.config.experimental.get_device_details(device) for device in tf.config.list_physical_devices("GPU")]


@contextmanager
def open_session(graph: tf.Graph) -> Iterator[tf.Session]:
    """Open a session that runs a graph as it is, with all its devices."""
    with graph.as_default(), NewSessionCreator(grappler="off").create_session() as session:
        yield session


def check_memory(machine: Machine) -> Finding:
    """Check that a session takes little of the GPUs' memory at once.

    Raises:
        Wrong: It takes more than half.
        Skipped: There are no GPUs, or their memory is not known.
    """
    if not machine.has_gpus:
        raise Skipped("logical CPU devices have no memory of their own")
    try:
        with NVMLContext() as nvml:
            gpus = nvml.visible_devices()[: len(machine.devices)]
            before = [gpu.memory()["used"] for gpu in gpus]
            _touch(machine)
            after = [gpu.memory() for gpu in gpus]
    except (DependencyError, DeviceError) as error:
        raise Skipped(f"the memory in use is not known: {error}") from error
    taken = [memory["used"] - used for memory, used in zip(after, before, strict=True)]
    figures = {"taken_bytes": taken, "total_bytes": [memory["total"] for memory in after]}
    shares = [each / memory["total"] for each, memory in zip(taken, after, strict=True)]
    if max(shares, default=0) > 0.5:
        text = f"a session without work takes {max(shares):.0%} of a GPU's memory"
        raise Wrong(text, "Unset TF_FORCE_GPU_ALLOW_GROWTH, or set it to true.", figures)
    return Finding(f"{max(taken, default=0) / 2**20:.0f} MiB of {after[0]['total'] / 2**30:.0f} GiB at first", figures)


def _touch(machine: Machine) -> None:
    graph = tf.Graph()
    with graph.as_default():
        sums = []
        for device in machine.devices:
            with tf.device(device):
                sums.append(tf.reduce_sum(tf.random.uniform([8, 8])))
        with open_session(graph) as session:
            session.run(sums)


class Placed(NamedTuple):
    """Place of an operation in a run, and its type."""

    device: str
    type: str


def placed_operations(
    session: tf.Session, fetches: Any, feeds: Mapping[tf.Tensor, Any] | None = None
) -> dict[str, Placed]:
    """Run fetches; return where each operation was, by its name, from the partitions of that run."""
    metadata = tf.RunMetadata()
    session.run(fetches, feeds, tf.RunOptions(output_partition_graphs=True), metadata)
    found = {}
    for partition in metadata.partition_graphs:
        for node in partition.node:
            spec = tf.DeviceSpec.from_string(node.device)
            found[node.name] = Placed(f"/device:{spec.device_type}:{spec.device_index}", node.op)
    return found


def check_arithmetic(machine: Machine) -> Finding:
    """Compare a matrix product and a convolution of each device, all at once, with numpy's, and their places.

    Raises:
        Wrong: A device computes wrong, or another one in its place.
    """
    rng = np.random.default_rng(0)
    shapes = ((_MATRIX, _MATRIX), (_MATRIX, _MATRIX), _IMAGE, _KERNEL)
    a, b, image, kernel = (rng.integers(-8, 9, shape).astype(np.float32) for shape in shapes)
    windows = np.lib.stride_tricks.sliding_window_view(image, _KERNEL[:2], (1, 2))
    wanted = {
        "matrix product": a.astype(np.float64) @ b,
        "convolution": np.einsum("nxycij,ijco->nxyo", windows, kernel.astype(np.float64)),
    }
    graph = tf.Graph()
    with graph.as_default():
        # TensorFlow computes with constants in advance, on the host.
        fed = [tf.placeholder(tf.float32, shape) for shape in shapes]
        towers = []
        for device in machine.devices:
            with tf.device(device):
                product = tf.matmul(fed[0], fed[1])
                convolved = tf.nn.conv2d(fed[2], fed[3], 1, "VALID")
                towers.append({"matrix product": product, "convolution": convolved})
    feeds = dict(zip(fed, (a, b, image, kernel), strict=True))
    with open_session(graph) as session:
        results = [session.run(towers, feeds) for _ in range(_ROUNDS)]
        placed = placed_operations(session, towers, feeds)
    _refuse_other_places(machine, towers, placed)
    worst = _compare(machine, results, wanted)
    return Finding(f"{_ROUNDS} rounds on each device, off by {worst:.2g} at most", {"off_by": worst})


def _refuse_other_places(machine: Machine, towers: list[dict[str, tf.Tensor]], placed: Mapping[str, Placed]) -> None:
    for device, tower in zip(machine.devices, towers, strict=True):
        for what, tensor in tower.items():
            place = placed[tensor.op.name].device
            if place != device:
                raise Wrong(f"the {what} for {device} is on {place}, silently", PLACE_ADVICE)


def _compare(machine: Machine, results: list[list[dict[str, Any]]], wanted: Mapping[str, Any]) -> float:
    """Return the largest error; raise `Wrong` with the devices whose errors are too large."""
    worst, wrong = 0.0, []
    for k, device in enumerate(machine.devices):
        for what, right in wanted.items():
            errors = [float(np.max(np.abs(towers[k][what] - right))) for towers in results]
            # NaN is no number below the tolerance.
            failed = [error for error in errors if not error < _TOLERANCE]
            if failed:
                times = f"in {len(failed)} of {len(errors)} rounds"
                wrong.append(f"{device} computes wrong: its {what} is off by up to {max(failed):.3g} {times}")
            worst = max(worst, *errors)
    if wrong:
        advice = (
            "Leave the device out (CUDA_VISIBLE_DEVICES), and look for errors of its memory: nvidia-smi -q -d ECC, and "
            "dmesg | grep -i xid. NVIDIA_TF32_OVERRIDE=0 tells whether rounding is the cause."
        )
        raise Wrong("; ".join(wrong), advice)
    return worst


def check_copies(machine: Machine) -> Finding:
    """Copy between each two devices, compare the copies, and measure the bandwidth.

    Raises:
        Wrong: A copy differs from what was copied.
        Skipped: There is one device.
    """
    if len(machine.devices) < 2:
        raise Skipped("there is one device")
    rates = CopyRates(machine)
    table = rates.table(machine.devices, machine.devices)
    if not machine.has_gpus:
        return Finding(
            "right; logical CPU devices share memory, so that nothing is copied", {"gigabytes_per_sec": None}
        )
    return _rates_found(machine, table)


def _rates_found(machine: Machine, table: list[list[float | None]]) -> Finding:
    """Return the finding on the rates between devices, with the pairs that are far below the fastest."""
    known = {(i, j): rate for i, row in enumerate(table) for j, rate in enumerate(row) if rate is not None}
    fastest = max(known.values())
    slow = [f"{i} to {j}" for (i, j), rate in known.items() if rate < _SLOW_SHARE * fastest]
    text = f"{min(known.values()):.1f} to {fastest:.1f} GB/s"
    advice = ""
    if slow:
        pairs = ", ".join(slow[:6]) + (" and others" if len(slow) > 6 else "")
        advice = (
            f"The pairs {pairs} have less than {_SLOW_SHARE:.0%} of the fastest: nvidia-smi topo -m shows the links; "
            "train on the devices of one group, or try mode='hierarchical'."
        )
    return Finding(text, {"gigabytes_per_sec": table}, advice)


def check_host_copies(machine: Machine) -> Finding:
    """Copy from host to device and back, compare the copies, and measure the bandwidth.

    Raises:
        Wrong: A copy differs from what was copied.
        Skipped: There are no GPUs.
    """
    if not machine.has_gpus:
        raise Skipped("logical CPU devices are the host")
    rates = CopyRates(machine, [HOST])
    to_devices = rates.table([HOST], machine.devices)[0]
    from_devices = [row[0] for row in rates.table(machine.devices, [HOST])]
    figures = {"to_devices": to_devices, "from_devices": from_devices}
    slowest = min(rate for rate in (*to_devices, *from_devices) if rate is not None)
    return Finding(f"{slowest:.1f} GB/s at least", figures)


class CopyRates:
    """The graph and the measurements of copies between devices.

    Args:
        machine: the devices.
        others: devices besides.
    """

    def __init__(self, machine: Machine, others: tuple[str, ...] | list[str] = ()) -> None:
        self._kind = machine.kind
        self._places = [*machine.devices, *others]
        self._size = _COPY_FLOATS[machine.kind]

    def table(self, sources: Any, targets: Any) -> list[list[float | None]]:
        """Return gigabytes a second by source and target; None from a device to itself.

        Raises:
            Wrong: A copy differs from what was copied.
        """
        graph = tf.Graph()
        with graph.as_default(), tf.variable_scope("copies", use_resource=True):
            pattern = tf.placeholder(tf.float32, [self._size])
            held = {place: self._variables(place, n, pattern) for n, place in enumerate(self._places)}
            checks, steps = {}, {}
            for pair in ((i, j) for i in sources for j in targets if i != j):
                checks[pair] = self._is_right(held, *pair)
                steps[pair] = self._copy_all(held, *pair)
            initialize = [variable.initializer for variables in held.values() for variable in variables]
        with open_session(graph) as session:
            values = np.arange(self._size, dtype=np.float32) % _PATTERN
            session.run(initialize, {pattern: values})
            self._refuse_wrong(session, checks)
            rates = {pair: self._rate(make_callable(session, targets=[step])) for pair, step in steps.items()}
        return [[rates.get((i, j)) for j in targets] for i in sources]

    def _variables(self, place: str, number: int, pattern: tf.Tensor) -> list[tf.Variable]:
        """Return variables on a device, whose values are those of the first one plus the number of the device."""
        with tf.device(place):
            return [
                tf.get_variable(f"from{number}_{n}", initializer=pattern + float(number), trainable=False)
                for n in range(_COPIES)
            ]

    def _is_right(self, held: Mapping[str, list[tf.Variable]], source: str, target: str) -> tf.Tensor:
        difference = float(self._places.index(source) - self._places.index(target))
        with tf.device(source):
            sent = held[source][0].read_value()
        with tf.device(target):
            return tf.reduce_all(tf.equal(tf.identity(sent) - difference, held[target][0].read_value()))

    def _copy_all(self, held: Mapping[str, list[tf.Variable]], source: str, target: str) -> tf.Operation:
        with tf.device(source):
            sent = [variable.read_value() for variable in held[source]]
        with tf.device(target):
            return tf.group(*[tf.identity(each).op for each in sent])

    def _refuse_wrong(self, session: tf.Session, checks: Mapping[tuple[str, str], tf.Tensor]) -> None:
        right = session.run(checks)
        wrong = [f"{source} to {target}" for (source, target), is_right in right.items() if not is_right]
        if wrong:
            text = f"copies arrive changed: {', '.join(wrong)}"
            advice = (
                "Direct copies between these devices are broken, often by the IOMMU or by ACS: disable both in the "
                "firmware, or set NCCL_P2P_DISABLE=1 and train with mode='cpu'."
            )
            raise Wrong(text, advice)

    def _rate(self, step: Callable[[], object]) -> float:
        step()
        secs = []
        for _ in range(_COPY_ROUNDS):
            start = time.perf_counter()
            step()
            secs.append(time.perf_counter() - start)
        return 4 * self._size * _COPIES / median(secs) / _GIGA
