"""The devices of this machine, of scripts' requests, and of sessions.

Scripts request GPUs: ``8``, ``[0, 2, 5]`` or ``"/gpu:3"``. On a machine without any, TensorFlow's soft placement would
silently put every tower on the first CPU device. Here such a GPU becomes the logical CPU device of the same number, a
device of its own once the session is created with enough of them. On a machine with GPUs, a number that is too high is
an error. Names have one spelling: ``/device:CPU:3``, after job and task for a device of a cluster.
"""

import itertools
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, DeviceError
from tpack.graph_copy import op_kinds
from tpack.utils import logger
from tpack.utils.env import usable_cores
from tpack.utils.logger import log_once
from tpack.utils.validation import check_arguments, check_count, is_integer, mismatch

Device: TypeAlias = str | Callable[[tf.Operation], str]
"""What ``tf.device`` takes: a name, or a device function."""


def list_gpus() -> list[str]:
    """Return the canonical names of this machine's GPUs, without starting any of them."""
    return [f"/device:GPU:{k}" for k in range(len(tf.config.list_physical_devices("GPU")))]


@check_arguments
def canonical_device(name: str) -> str:
    """Return the canonical spelling of a device name; an empty name stays empty.

    Raises:
        ConfigError: TensorFlow cannot read the name.
    """
    if not name:
        return ""
    try:
        return tf.DeviceSpec.from_string(name).to_string()
    except (ValueError, TypeError) as error:
        expected = "the name of a device, such as '/gpu:0' or '/device:CPU:3'"
        raise ConfigError(mismatch("canonical_device", "name", name, expected)) from error


def device_key(name: str) -> str:
    """Return the key under which values and variables of a device are stored, so that any of its names finds them.

    ``"/gpu:1"`` and ``"/job:localhost/replica:0/task:0/device:GPU:1"`` become ``"/device:GPU:1"``; a device of a
    cluster keeps job, replica and task. An empty name stays empty.

    Raises:
        ConfigError: TensorFlow cannot read the name.
    """
    spec = tf.DeviceSpec.from_string(canonical_device(name))
    if spec.device_type is not None and spec.device_index is None:
        spec = spec.replace(device_index=0)
    if spec.job in (None, "localhost"):
        spec = spec.replace(job=None, replica=None, task=None)
    return str(spec.to_string())


@check_arguments
def resolve_device(device: str | int) -> str:
    """Return the device of this machine for a script's request.

    Args:
        device: a name such as ``"/gpu:3"``, a GPU number, or ``-1`` for the CPU.

    Returns:
        A canonical name. A GPU becomes the logical CPU device of the same number where there is no GPU. The name of
        a device in another task, and one without a device type, are unchanged.

    Raises:
        DeviceError: There are GPUs, and not this one.
        ConfigError: The name cannot be read.
    """
    if not isinstance(device, str):
        device = "/cpu:0" if device == -1 else f"/gpu:{device}"
    name = canonical_device(device)
    spec = tf.DeviceSpec.from_string(name)
    if spec.device_type != "GPU" or spec.task not in (None, 0) or spec.job not in (None, "localhost"):
        return name
    gpus = list_gpus()
    index = spec.device_index or 0
    if not gpus:
        return str(spec.replace(device_type="CPU", device_index=index).to_string())
    if index >= len(gpus):
        raise DeviceError(f"there is no GPU {index}: this machine has {len(gpus)}, {', '.join(gpus)}")
    return name


def resolve_together(devices: Iterable[str]) -> list[str]:
    """Return this machine's devices, spelled by `device_key`, for a list of names, different ones for different names.

    On a machine without GPUs, the list may also have the logical CPU device of a GPU's number, as ``"/cpu:0"`` beside
    ``"/gpu:0"``. The GPU then gets the first device that is not in the list.

    Raises:
        DeviceError: There are GPUs, and a requested one is not among them.
        ConfigError: A name cannot be read.
    """
    asked = [device_key(name) for name in devices]
    found = {name: device_key(resolve_device(name)) for name in asked}
    for name, device in found.items():
        if name != device and device in found:
            cpus = map("/device:CPU:{}".format, itertools.count())
            found[name] = next(cpu for cpu in cpus if cpu not in found.values())
    return [found[name] for name in asked]


@check_arguments
def resolve_devices(gpus: int | Sequence[int]) -> tuple[str, ...]:
    """Return one device for each tower of a script's request.

    Args:
        gpus: the number of towers, or the numbers of their GPUs.

    Returns:
        K canonical names; logical CPU devices, which is logged once, on a machine without GPUs.

    Raises:
        ConfigError: No tower, a negative number or the same one twice.
        DeviceError: There are GPUs, and a requested one is not among them.
    """
    indices = tower_indices(gpus)
    devices = tuple(resolve_device(index) for index in indices)
    if not list_gpus():
        # A trainer and its inference runners ask for the same towers.
        names = ", ".join(devices)
        log_once(f"This machine has no GPU: {len(devices)} tower(s) go to the logical CPU devices {names}.")
    return devices


def tower_indices(gpus: int | Sequence[int]) -> list[int]:
    """Return the GPU numbers of a script's request.

    Raises:
        ConfigError: No tower, a negative number or the same one twice.
    """
    if is_integer(gpus):
        indices = list(range(gpus))
    elif isinstance(gpus, Iterable) and not isinstance(gpus, str):
        indices = list(gpus)
    else:
        raise ConfigError(f"got gpus={gpus!r}: expected a number of GPUs or a list of GPU numbers")
    if not indices:
        raise ConfigError(f"got gpus={gpus!r}: expected at least one tower")
    if any(not is_integer(k) or k < 0 for k in indices) or len(set(indices)) < len(indices):
        raise ConfigError(f"got gpus={gpus!r}: expected different GPU numbers from 0 up")
    return indices


@check_arguments
def required_cpu_devices(graph: tf.Graph) -> int:
    """Return the number of CPU devices, at least one, that this process needs to run ``graph``."""
    return 1 + max((index for kind, index in local_devices(graph) if kind == "CPU"), default=0)


@check_arguments
def provide_cpu_devices(config: tf.ConfigProto, graph: tf.Graph, num_cores: int | None = None) -> None:
    """Configure a session for the CPU devices that a graph needs, and share the cores among them.

    By default each operation splits its work over all cores, so towers on K logical CPU devices, or several workers on
    one machine, wait for each other; here each operation gets the cores of one device. TensorFlow has one pool of these
    threads, of the size that the first session of the process requests.

    Args:
        config: a ConfigProto, which is changed. Its number of CPU devices is never lowered, and its
            ``intra_op_parallelism_threads`` is kept if it or TF_NUM_INTRAOP_THREADS in the environment is set.
        graph: the graph.
        num_cores: the cores that this process has for itself; None for all that it may use.
    """
    num_devices = required_cpu_devices(graph)
    num_usable = usable_cores()
    num_cores = num_usable if num_cores is None else check_count("provide_cpu_devices", "num_cores", num_cores)
    config.device_count["CPU"] = max(config.device_count.get("CPU", 0), num_devices)
    is_set = config.intra_op_parallelism_threads or os.environ.get("TF_NUM_INTRAOP_THREADS")
    if (num_devices > 1 or num_cores < num_usable) and not is_set:
        config.intra_op_parallelism_threads = max(1, num_cores // num_devices)


@check_arguments
def check_session_devices(session: tf.Session, graph: tf.Graph) -> None:
    """Check that ``session`` has every local device that an op of ``graph`` asks for.

    Soft placement, which ops without a kernel on a GPU need, would otherwise move whole towers to another device.

    Raises:
        DeviceError: One is missing. The message lists the requested and the available ones.
    """
    specs = [tf.DeviceSpec.from_string(device.name) for device in session.list_devices()]
    check_devices_present(graph, {(spec.device_type, spec.device_index) for spec in specs})


def check_devices_present(graph: tf.Graph, present: Collection[tuple[str, int]]) -> None:
    """Raise a DeviceError unless the local devices of a graph are among some (type, index) pairs."""
    missing = sorted(local_devices(graph).difference(present))
    if missing:
        wanted = ", ".join(f"/device:{kind}:{index}" for kind, index in missing)
        found = ", ".join(f"/device:{kind}:{index}" for kind, index in sorted(present))
        raise DeviceError(
            f"the graph has operations on {wanted}, and the session has only {found}; use NewSessionCreator, which "
            "provides the CPU devices that the graph needs, or set device_count in the ConfigProto"
        )


def local_devices(graph: tf.Graph) -> set[tuple[str, int]]:
    """Return the (type, index) pairs of the devices in this process that operations of ``graph`` ask for."""
    found = set()
    for name in {op.device for op in graph.get_operations()}:
        spec = tf.DeviceSpec.from_string(name)
        if spec.device_type is not None and spec.device_index is not None and spec.job in (None, "localhost"):
            found.add((spec.device_type, spec.device_index))
    return found


@check_arguments
class LeastLoadedDeviceSetter:
    """Device function: variables go to the device with the fewest bytes of them, everything else to one device.

    A variable whose shape is not fully defined counts as nothing, with one warning.

    Args:
        worker_device: the device for computation.
        ps_devices: the devices for variables.

    Raises:
        ConfigError: ``ps_devices`` is empty or holds a name that cannot be read.
        DeviceError: The machine has GPUs, and not one of these.

    Example:
        with tf.device(LeastLoadedDeviceSetter("/gpu:0", ["/gpu:0", "/gpu:1"])):
            ...

    Source:
        The class of the same name in the seed ``graph_builder_utils``, which supports only ref variables and counts
        elements.
    """

    def __init__(self, worker_device: str, ps_devices: Sequence[str]) -> None:
        self.worker_device = resolve_device(worker_device)
        self._load = LeastLoaded([resolve_device(device) for device in ps_devices])
        self._warned = False

    @property
    def ps_devices(self) -> list[str]:
        """The devices for variables."""
        return list(self._load.devices)

    @property
    def ps_sizes(self) -> list[int]:
        """The bytes of variables on each device so far."""
        return list(self._load.sizes)

    def __call__(self, op: tf.Operation) -> str:
        """Return the device for ``op``; an explicit device stays."""
        if op.device:
            return str(op.device)
        if op.type in op_kinds.VARIABLES:
            return self.place_with_balance(op)
        return self.worker_device

    def place_with_balance(self, op: tf.Operation) -> str:
        """Return the least loaded device after adding the bytes of the variable ``op`` to it."""
        return self._load.take(self._size_bytes(op))

    def _size_bytes(self, op: tf.Operation) -> int:
        # The output of a VarHandleOp is only the handle.
        is_handle = op.type == "VarHandleOp"
        shape = tf.TensorShape(op.get_attr("shape")) if is_handle else op.outputs[0].shape
        dtype = op.get_attr("dtype") if is_handle else op.outputs[0].dtype.base_dtype
        num_elements = shape.num_elements()
        if num_elements is not None:
            return int(num_elements * dtype.size)
        if not self._warned:
            self._warned = True
            logger.warning(f"LeastLoadedDeviceSetter counts {op.name} and other variables of unknown size as nothing.")
        return 0

    def __str__(self) -> str:
        return f"LeastLoadedDeviceSetter-{self.worker_device}"


class LeastLoaded:
    """A list of devices, in order of preference, with the bytes on each; equal loads go to the first.

    Raises:
        ConfigError: ``devices`` is empty.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        if not devices:
            raise ConfigError("got devices=[]: expected at least one device to balance over")
        self.devices = tuple(devices)
        self.sizes = [0] * len(self.devices)

    def take(self, size_bytes: int) -> str:
        """Return the least loaded device after adding ``size_bytes`` to it."""
        index = min(range(len(self.sizes)), key=self.sizes.__getitem__)
        self.sizes[index] += size_bytes
        return self.devices[index]


def deal_out(sizes: Sequence[int], count: int) -> list[int]:
    """Return the owner of each of N things, a number below ``count``: the largest first, to the least loaded one."""
    load = LeastLoaded([str(number) for number in range(count)])
    owners = [0] * len(sizes)
    for n in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        owners[n] = int(load.take(sizes[n]))
    return owners
