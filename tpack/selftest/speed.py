"""Checks of speed: all-reduces beside the best possible time, and images a second of a residual network.

On logical CPU devices, which share the cores, a small network stands in for ResNet-50.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import StopTraining, TpackError
from tpack.input_source.tensors import TensorInput
from tpack.models.batch_norm import BatchNorm
from tpack.models.conv2d import Conv2D
from tpack.models.registry import Layer
from tpack.reduction.autotune.candidates import make_candidate, refusals
from tpack.reduction.autotune.measure import Workload, make_workload, ring_cost
from tpack.reduction.autotune.worker import measure_here
from tpack.reduction.names import choose_by_heuristic
from tpack.selftest.devices import CopyRates
from tpack.selftest.runner import Finding, Machine, Skipped, Wrong
from tpack.tfutils.argscope import argscope
from tpack.train.single_cost import SingleCostTrainer
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated
from tpack.utils.env import usable_cores

# A layer takes its name first, which its signature does not say.
_convolve: Layer = Conv2D

_CANDIDATES = ("one_device", "round_robin", "hierarchical", "psgpu", "xring", "nccl", "collective")
_GRADIENTS = {"GPU": (16, 1_600_000), "CPU": (4, 250_000)}
"""Their number and the elements of each; on GPUs together as large as those of ResNet-50."""
_ROUNDS, _STEPS = 3, 2
_LOW_SHARE = 0.3
_GIGA = 1e9

_BATCHES = {"GPU": (64, 32, 16), "CPU": (8,)}
_WARMUP_STEPS, _TIMED_STEPS, _TIMED_SECS = 5, 30, 8.0


def check_all_reduce(machine: Machine) -> Finding:
    """Measure reducers on gradients of known values, beside the least time that the devices allow.

    Raises:
        Wrong: A reducer fails, or its result is wrong.
        Skipped: There is one device.
    """
    if len(machine.devices) < 2:
        raise Skipped("one device reduces nothing")
    number, size = _GRADIENTS[machine.kind]
    workload = make_workload(machine.devices, [[size]] * number)
    refused = refusals(_CANDIDATES, machine.devices, ["float32"])
    rows, failed = {}, []
    for name in (name for name in _CANDIDATES if name not in refused):
        try:
            row = measure_here(name, make_candidate(name, machine.devices), workload, steps=_STEPS, rounds=_ROUNDS)
        except (TpackError, tf.errors.OpError) as error:
            failed.append(f"{name}: {str(error).splitlines()[0]}")
            continue
        rows[name] = row.median_secs
    if failed:
        raise Wrong("; ".join(failed), "Train with another mode, such as mode='cpu', and report it with this page.")
    best = _best_secs(machine, workload)
    return _all_reduce_found(machine, workload, rows, best)


def _best_secs(machine: Machine, workload: Workload) -> float:
    """Return the least seconds of an all-reduce: of a ring over the links, or of reading and writing memory once."""
    count, size_bytes = len(machine.devices), workload.size_bytes
    if not machine.has_gpus:
        return _memory_floor_secs(count, size_bytes // 4)
    rates = CopyRates(machine).table(machine.devices, machine.devices)
    slowest = min(rates[k][(k + 1) % count] or 0.0 for k in range(count))
    return ring_cost(count, size_bytes).bytes_moved / (slowest * _GIGA)


def _memory_floor_secs(count: int, size: int) -> float:
    """Return the seconds to read K arrays and to write one, with all cores."""
    towers = [np.full(size, k, np.float32) for k in range(count)]
    total = np.zeros(size, np.float32)
    bounds = np.linspace(0, size, usable_cores() + 1).astype(int)

    def add_up(first: int, last: int) -> None:
        np.add(towers[0][first:last], towers[1][first:last], out=total[first:last])
        for tower in towers[2:]:
            total[first:last] += tower[first:last]

    secs = []
    with ThreadPoolExecutor(usable_cores()) as pool:
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            list(pool.map(add_up, bounds[:-1], bounds[1:]))
            secs.append(time.perf_counter() - start)
    return min(secs)


def _all_reduce_found(machine: Machine, workload: Workload, rows: dict[str, float], best: float) -> Finding:
    size_bytes, count = workload.size_bytes, len(machine.devices)
    moved = ring_cost(count, size_bytes).bytes_moved
    default, fastest = choose_by_heuristic(machine.devices).reducer.name, min(rows, key=rows.__getitem__)
    figures = {
        "megabytes": size_bytes / 1e6,
        "best_possible_ms": best * 1e3,
        "rows": {
            name: {"ms": secs * 1e3, "gigabytes_per_sec": moved / secs / _GIGA, "share_of_best": best / secs}
            for name, secs in sorted(rows.items(), key=lambda item: item[1])
        },
    }
    of_what = "a ring over the links" if machine.has_gpus else "reading and writing memory once"
    text = f"{fastest} is the fastest: {rows[fastest] * 1e3:.1f} ms, {best / rows[fastest]:.0%} of {of_what}"
    advice = ""
    if machine.has_gpus and best / rows[fastest] < _LOW_SHARE:
        advice = "All are far below the links: set NCCL_DEBUG=INFO, and look at nvidia-smi topo -m."
    elif rows.get(default, 0.0) > 1.2 * rows[fastest]:
        advice = (
            f"The default, {default}, takes {rows[default] / rows[fastest]:.1f} times as long: use mode='{fastest}'."
        )
    return Finding(text, figures, advice)


@dataclass(frozen=True)
class Network:
    """A residual network, and the images of a tower's batch.

    Attributes:
        name: its name in the report.
        stages: the width of the 3 x 3 convolutions of each stage, and the number of its blocks.
        pixels: the height and width of an image.
        batch: images of a tower.
        data_format: the order of the dimensions.
    """

    name: str
    stages: tuple[tuple[int, int], ...]
    pixels: int
    batch: int
    data_format: str

    def cost(self, image: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return the mean loss of a batch."""
        layout, sides = ("NCHW", [2, 3]) if self.data_format == "channels_first" else ("NHWC", [1, 2])
        with argscope([Conv2D, BatchNorm], data_format=self.data_format):
            features = _normalized("conv0", image, 64 if self.pixels > 64 else 8, 7, 2)
            features = tf.nn.max_pool2d(tf.nn.relu(features), 3, 2, "SAME", data_format=layout)
            for index, (width, blocks) in enumerate(self.stages):
                for block in range(blocks):
                    stride = 2 if index and not block else 1
                    features = _block(f"group{index}_block{block}", features, width, stride, self.data_format)
        features = tf.reduce_mean(features, sides)
        first = tf.random_normal_initializer(stddev=0.01)
        weights = tf.get_variable("linear/W", [features.shape[1], 1000], initializer=first)
        logits = tf.matmul(features, weights) + tf.get_variable("linear/b", [1000], initializer=tf.zeros_initializer())
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.reduce_mean(losses, name="cost")

    def make_batch(self) -> list[tf.Tensor]:
        """Return a batch made on the device."""
        return [tf.random.uniform(self.shape), tf.zeros([self.batch], tf.int32)]

    @property
    def shape(self) -> list[int]:
        """The shape of a batch."""
        sides = [self.pixels, self.pixels]
        return [self.batch, 3, *sides] if self.data_format == "channels_first" else [self.batch, *sides, 3]


RESNET50 = Network("ResNet-50", ((64, 3), (128, 4), (256, 6), (512, 3)), 224, _BATCHES["GPU"][0], "channels_first")
SMALL = Network(
    "a residual network of 9 convolutions in place of ResNet-50",
    ((8, 1), (16, 1)),
    32,
    _BATCHES["CPU"][0],
    "channels_last",
)


def _normalized(name: str, features: tf.Tensor, width: int, size: int, stride: int = 1) -> tf.Tensor:
    convolved = _convolve(name, features, filters=width, kernel_size=size, strides=stride, use_bias=False)
    return BatchNorm(f"{name}_bn", convolved)


def _block(name: str, features: tf.Tensor, width: int, stride: int, data_format: str) -> tf.Tensor:
    with tf.variable_scope(name):
        shortcut = features
        channels = features.shape[1 if data_format == "channels_first" else 3]
        if stride != 1 or channels != 4 * width:
            shortcut = _normalized("shortcut", features, 4 * width, 1, stride)
        features = tf.nn.relu(_normalized("conv1", features, width, 1))
        features = tf.nn.relu(_normalized("conv2", features, width, 3, stride))
        return tf.nn.relu(_normalized("conv3", features, 4 * width, 1) + shortcut)


class _Clock(Callback):
    """Takes the time of steps after the first ones, and ends training after enough of them, or of time."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def _trigger_step(self) -> None:
        self.times.append(time.perf_counter())
        timed = self.times[_WARMUP_STEPS:]
        if timed and timed[-1] - timed[0] > _TIMED_SECS and len(timed) > 3:
            raise StopTraining("enough steps were timed")

    @property
    def step_secs(self) -> float:
        """The median seconds of a step."""
        return median(np.diff(self.times[_WARMUP_STEPS:]).tolist())


def check_images(machine: Machine, count: int) -> Finding:
    """Train the network on some of the devices, and count images a second; small memories take smaller batches."""
    network = RESNET50 if machine.has_gpus else SMALL
    for batch in _BATCHES[machine.kind]:
        network, clock = replace(network, batch=batch), _Clock()
        try:
            with tf.Graph().as_default():
                _run(SimpleTrainer() if count == 1 else SyncMultiGPUTrainerReplicated(count), network, clock)
            break
        except tf.errors.ResourceExhaustedError:
            if batch == _BATCHES[machine.kind][-1]:
                raise
    rate = count * network.batch / clock.step_secs
    figures: dict[str, Any] = {"count": count, "images_per_sec": rate, "step_secs": clock.step_secs}
    figures |= {"network": network.name, "batch": network.batch, "pixels": network.pixels, "dtype": "float32"}
    return Finding(f"{rate:.0f} images/s, {network.batch} a device", figures)


def _run(trainer: SingleCostTrainer, network: Network, clock: _Clock) -> None:
    signature = [tf.TensorSpec(network.shape, tf.float32, "image"), tf.TensorSpec([network.batch], tf.int32, "label")]
    trainer.setup_graph(
        signature,
        TensorInput(network.make_batch, size=_WARMUP_STEPS + _TIMED_STEPS),
        network.cost,
        lambda: tf.train.MomentumOptimizer(0.01, 0.9),
    )
    trainer.train_with_defaults(
        callbacks=[clock], monitors=[], extra_callbacks=[], steps_per_epoch=_WARMUP_STEPS + _TIMED_STEPS, max_epoch=1
    )
