"""Graphs for eight GPUs on a machine without any: kernels, copies between devices, and TensorFlow's rewrites.

TensorFlow's packages for Linux have the kernels for GPUs registered whether or not there is one.
"""

from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import device_properties_pb2
from tensorflow.python.framework import kernels
from tensorflow.python.grappler import _pywrap_tf_cluster, tf_optimizer

from tpack.tfutils.dependency import ancestors

_TRANSFERS = ("_Send", "_HostSend")


def gpus(count: int = 8) -> list[str]:
    """Return the names of GPUs."""
    return [f"/device:GPU:{k}" for k in range(count)]


def show_gpus(monkeypatch: Any, count: int = 8) -> None:
    """Let TensorFlow list GPUs that are not there."""
    devices = [tf.config.PhysicalDevice(f"/physical_device:GPU:{k}", "GPU") for k in range(count)]
    listed = tf.config.list_physical_devices

    def list_physical_devices(kind: str | None = None) -> list[Any]:
        return devices if kind == "GPU" else [*listed(kind), *([] if kind else devices)]

    monkeypatch.setattr(tf.config, "list_physical_devices", list_physical_devices)


def has_kernel(op: tf.Operation, device_type: str = "GPU") -> bool:
    """Tell whether an operation, of its types, has a kernel on a kind of device."""
    for kernel in kernels.get_registered_kernels_for_op(op.type).kernel:
        if kernel.device_type not in (device_type, "DEFAULT"):
            continue
        if all(_type_of(op, rule.name) in rule.allowed_values.list.type for rule in kernel.constraint):
            return True
    return False


def _type_of(op: tf.Operation, name: str) -> int:
    try:
        value = op.get_attr(name)
    except ValueError:
        return -1
    return value.as_datatype_enum if isinstance(value, tf.DType) else -1


def without_kernel(operations: Iterable[tf.Operation]) -> list[str]:
    """Return the operations that ask for a GPU and have no kernel there."""
    return [f"{op.name} ({op.type})" for op in operations if "GPU" in op.device and not has_kernel(op)]


def copies_asked_for(fetches: Any, size: int) -> Counter[tuple[str, str]]:
    """Return the bytes of tensors of floats, of a least number, that a graph copies between devices: (from, to).

    A tensor is copied once to each other device that takes it, as TensorFlow's partitions do.
    """
    found: Counter[tuple[str, str]] = Counter()
    sent = set()
    for op in ancestors([fetches] if isinstance(fetches, tf.Operation) else list(fetches)):
        for tensor in op.inputs:
            way = place_of(tensor.op), place_of(op)
            if way[0] != way[1] and _num_bytes(tensor, size) and (tensor.name, way[1]) not in sent:
                sent.add((tensor.name, way[1]))
                found[way] += _num_bytes(tensor, size)
    return found


def copies_made(session: tf.Session, target: tf.Operation, size: int) -> Counter[tuple[str, str]]:
    """Return the same from the partitions of a run, in which nothing was rewritten."""
    metadata = tf.RunMetadata()
    session.run(target, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    found: Counter[tuple[str, str]] = Counter()
    for partition in metadata.partition_graphs:
        for node in partition.node:
            if node.op in _TRANSFERS:
                tensor = _sent_tensor(session.graph, node.attr["tensor_name"].s.decode())
                if tensor is not None and _num_bytes(tensor, size):
                    ends = [node.attr[f"{end}_device"].s.decode() for end in ("send", "recv")]
                    found[_short(ends[0]), _short(ends[1])] += _num_bytes(tensor, size)
    return found


def rewritten(target: tf.Operation, config: tf.ConfigProto, architecture: str, count: int = 8) -> tf.GraphDef:
    """Return the graph as TensorFlow's passes rewrite it before a run, on GPUs of a compute capability."""
    devices = [_described("CPU", 0, {}), *(_described("GPU", k, {"architecture": architecture}) for k in range(count))]
    cluster = _pywrap_tf_cluster.TF_NewVirtualCluster(devices)
    with target.graph.as_default():
        tf.add_to_collection("train_op", target)
        meta_graph = tf.train.export_meta_graph(graph=target.graph)
    return tf_optimizer.OptimizeGraph(config, meta_graph, verbose=False, cluster=SimpleNamespace(tf_cluster=cluster))


def _described(kind: str, index: int, environment: dict[str, str]) -> bytes:
    properties = device_properties_pb2.DeviceProperties(
        type=kind, num_cores=8, frequency=1000, memory_size=1 << 34, bandwidth=1 << 20, environment=environment
    )
    name = f"/job:localhost/replica:0/task:0/device:{kind}:{index}"
    return device_properties_pb2.NamedDevice(name=name, properties=properties).SerializeToString()


def busiest(copies: Counter[tuple[str, str]]) -> tuple[int, int]:
    """Return the bytes that the busiest device gets, and those that the busiest one sends."""
    gets, sends = Counter[str](), Counter[str]()
    for (sender, receiver), num_bytes in copies.items():
        sends[sender] += num_bytes
        gets[receiver] += num_bytes
    return max(gets.values(), default=0), max(sends.values(), default=0)


def place_of(op: tf.Operation) -> str:
    """Return the device of an operation, for one without that of the resource that it takes, which TensorFlow joins."""
    if not op.device:
        for tensor in op.inputs:
            if tensor.dtype == tf.resource:
                return place_of(tensor.op)
    return _short(op.device)


def _num_bytes(tensor: tf.Tensor, size: int) -> int:
    count = tensor.shape.num_elements() or 0
    return count * tensor.dtype.size if tensor.dtype.base_dtype.is_floating and count >= size else 0


def _sent_tensor(graph: tf.Graph, name: str) -> tf.Tensor | None:
    # Such as ``edge_12_tower0/grad``; control edges have names of other operations.
    _, _, name = name.removeprefix("edge_").partition("_")
    try:
        return graph.get_operation_by_name(name).outputs[0]
    except (KeyError, IndexError):
        return None


def _short(name: str) -> str:
    spec = tf.DeviceSpec.from_string(name)
    return f"{spec.device_type or 'CPU'}:{spec.device_index or 0}"
