"""Trainers on eight GPUs, built and not run: where operations are, and what goes from device to device."""

from collections import Counter
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.gpu_graphs import copies_asked_for, gpus, place_of, rewritten, show_gpus, without_kernel
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.staging import StagingInput
from tpack.input_source.tensors import TensorInput
from tpack.models import BatchNorm, Conv2D, FullyConnected, MaxPooling
from tpack.tfutils.argscope import argscope
from tpack.tfutils.dependency import ancestors
from tpack.tfutils.sesscreate import choose_rewrites, get_default_sess_config
from tpack.tower.devices import required_cpu_devices
from tpack.train.trainers import AsyncMultiGPUTrainer, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated

K = 8
COMPUTING = ("Conv2D", "MatMul", "FusedBatchNorm", "MaxPool", "Relu", "BiasAdd", "SparseSoftmax", "ReluGrad")


class Net(ModelDesc):
    """A network with each kind of layer that matters on GPUs."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([4, 8, 8, 3], tf.float32, "x"), tf.TensorSpec([4], tf.int32, "y")]

    def build_graph(self, x: Any, y: Any) -> Any:
        x = BatchNorm("bn", Conv2D("conv", x, filters=16, kernel_size=3))
        logits = FullyConnected("fc", MaxPooling("pool", tf.nn.relu(x), 2), 64)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=y))

    def optimizer(self) -> Any:
        return tf.train.MomentumOptimizer(0.1, 0.9)


def built(trainer: Any) -> list[tf.Operation]:
    """Build the graph of a trainer; return the operations of a step."""
    model = Net()
    source = StagingInput(TensorInput(lambda: [tf.zeros([4, 8, 8, 3]), tf.zeros([4], tf.int32)], size=4))
    trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
    return list(ancestors([trainer.train_op]))


TRAINERS = [SyncMultiGPUTrainerReplicated, SyncMultiGPUTrainerParameterServer, AsyncMultiGPUTrainer]


@pytest.mark.parametrize("make", TRAINERS)
def test_each_tower_computes_on_its_gpu(graph, monkeypatch, make):
    show_gpus(monkeypatch)
    trainer = make(K)
    step = built(trainer)
    assert list(trainer.devices) == gpus()
    assert without_kernel(graph.get_operations()) == []
    computing = [op for op in step if op.type.startswith(COMPUTING)]
    assert Counter(map(place_of, computing)).keys() == {f"GPU:{k}" for k in range(K)}
    assert len(set(Counter(map(place_of, computing)).values())) == 1
    # Nothing of a step is left to the choice of TensorFlow but reads of variables, which go where these are.
    assert {op.type for op in step if not op.device} <= {"ReadVariableOp", "NoOp", "Const"}
    for k in range(K):
        assert {place_of(op) for op in graph.get_operations() if op.type == "Stage"} == {f"GPU:{k}" for k in range(K)}
        inside = [op for op in computing if op.name.startswith(f"tower{k}/")]
        assert inside
        assert {place_of(op) for op in inside} == {f"GPU:{k}"}


def test_replicas_and_their_updates_are_on_all_gpus(graph, monkeypatch):
    show_gpus(monkeypatch)
    trainer = SyncMultiGPUTrainerReplicated(K)
    step = built(trainer)
    updates = Counter(place_of(op) for op in step if op.type == "ResourceApplyMomentum")
    assert updates == dict.fromkeys((f"GPU:{k}" for k in range(K)), 6)
    handles = Counter(place_of(op) for op in step if op.type == "VarHandleOp")
    assert set(handles) == {f"GPU:{k}" for k in range(K)}
    # The large gradient, of the kernel of the last layer: in two halves, by 14 copies.
    size = 4 * 4 * 16 * 64
    large = copies_asked_for(trainer.train_op, size)
    assert sum(large.values()) == 14 * 4 * size
    assert all(way[0].startswith("GPU") and way[1].startswith("GPU") for way in large)


@pytest.mark.parametrize(("mode", "op_type"), [("nccl", "NcclAllReduce"), ("collective", "CollectiveReduce")])
def test_gradients_are_reduced_by_a_library(graph, monkeypatch, mode, op_type):
    show_gpus(monkeypatch)
    trainer = SyncMultiGPUTrainerReplicated(K, mode=mode)
    step = built(trainer)
    assert without_kernel(graph.get_operations()) == []
    assert Counter(place_of(op) for op in step if op.type == op_type) == dict.fromkeys(
        (f"GPU:{k}" for k in range(K)), 6
    )
    assert copies_asked_for(trainer.train_op, 16 * 64) == Counter()


@pytest.mark.parametrize("make", TRAINERS[1:])
def test_shared_variables_go_to_each_gpu_once_and_gradients_back(graph, monkeypatch, make):
    show_gpus(monkeypatch)
    trainer = make(K)
    built(trainer)
    size = 4 * 4 * 16 * 64
    copies = copies_asked_for(trainer.train_op, size)
    wanted = {("CPU:0", f"GPU:{k}"): 4 * size for k in range(K)} | {(f"GPU:{k}", "CPU:0"): 4 * size for k in range(K)}
    assert copies == wanted


def test_a_graph_of_gpus_wants_one_cpu_device_and_memory_that_grows(graph, monkeypatch):
    show_gpus(monkeypatch)
    built(SyncMultiGPUTrainerReplicated(K))
    config = get_default_sess_config()
    assert required_cpu_devices(graph) == 1
    assert config.gpu_options.allow_growth
    assert not config.device_count


@pytest.mark.parametrize(
    ("data_format", "precision", "architecture", "wanted"),
    [
        ("channels_last", "float32", "8.0", "NCHW"),
        ("channels_first", "float32", "8.0", "NCHW"),
        ("channels_last", "float16", "8.0", "NHWC"),
        ("channels_last", "float16", "6.0", "NCHW"),
    ],
)
def test_convolutions_get_the_layout_of_their_gpu(graph, monkeypatch, data_format, precision, architecture, wanted):
    """The layers keep the format of their arguments; TensorFlow's pass, which the session enables, changes it."""
    show_gpus(monkeypatch)
    trainer = SyncMultiGPUTrainerReplicated(K, precision=precision)
    with argscope([Conv2D, BatchNorm, MaxPooling], data_format=data_format):
        built(trainer)
    short = "NCHW" if data_format == "channels_first" else "NHWC"
    assert {op.get_attr("data_format") for op in graph.get_operations() if op.type.startswith("Conv2D")} == {
        short.encode()
    }
    config = get_default_sess_config()
    choose_rewrites(config, graph)
    assert list(config.graph_options.rewrite_options.optimizers) == ["pruning", "layout", "remap"]
    nodes = rewritten(trainer.train_op, config, architecture).node
    formats = Counter(node.attr["data_format"].s.decode() for node in nodes if node.op.startswith("Conv2D"))
    assert formats == {wanted: 2 * K}
    transposes = [node for node in nodes if node.op == "Transpose"]
    # In each tower the images go in, and the features, or their gradient, come out; nothing is transposed between.
    assert bool(transposes) == (short != wanted)
    places = Counter(tf.DeviceSpec.from_string(node.device).device_index for node in transposes)
    assert len(set(places.values())) <= 1
    assert set(places) in (set(), set(range(K)))
    assert {tf.DeviceSpec.from_string(node.device).device_type for node in transposes} <= {"GPU"}


@pytest.mark.parametrize("towers", [[6, 7], 2])
def test_towers_are_on_the_gpus_that_were_chosen(graph, monkeypatch, towers):
    show_gpus(monkeypatch)
    trainer = SyncMultiGPUTrainerReplicated(towers)
    step = built(trainer)
    chosen = towers if isinstance(towers, list) else range(towers)
    assert {place_of(op) for op in step if op.type.startswith(COMPUTING)} == {f"GPU:{k}" for k in chosen}


def test_an_operation_without_a_kernel_or_on_the_wrong_gpu_is_found(graph, monkeypatch):
    """The checks of this file, on a planted fault."""
    show_gpus(monkeypatch)
    with tf.device("/device:GPU:3"):
        text = tf.strings.join([tf.constant("a"), "b"], name="text")
        tf.identity(tf.zeros([2]), name="number")
    with tf.device("/device:GPU:5"):
        moved = tf.negative(graph.get_tensor_by_name("number:0"), name="moved")
    # Strings have no kernels on GPUs, constants of them neither.
    assert {each.partition(" ")[0] for each in without_kernel(graph.get_operations())} == {
        "text",
        "Const",
        "text/inputs_1",
    }
    assert place_of(text.op) == "GPU:3"
    assert copies_asked_for(moved.op, 2) == {("GPU:3", "GPU:5"): 8}
