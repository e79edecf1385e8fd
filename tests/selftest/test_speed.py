"""Checks of speed on logical devices, and the words on figures of GPUs."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.autotune.measure import make_workload
from tpack.selftest import speed
from tpack.selftest.runner import Machine, Skipped, Wrong
from tpack.selftest.speed import RESNET50, SMALL, check_all_reduce, check_images
from tpack.tower.context import TowerContext

CPUS = Machine("CPU", ("/device:CPU:0", "/device:CPU:1"))
GPUS = Machine("GPU", CPUS.devices)


@pytest.fixture
def small_gradients(monkeypatch):
    for kind in ("GPU", "CPU"):
        monkeypatch.setitem(speed._GRADIENTS, kind, (2, 1000))


def test_reducers_are_measured_beside_the_memory_floor(small_gradients):
    found = check_all_reduce(CPUS)
    assert found.figures["megabytes"] == 0.008
    assert set(found.figures["rows"]) == {"one_device", "round_robin", "hierarchical", "psgpu", "xring", "collective"}
    assert found.figures["best_possible_ms"] > 0
    assert found.text.endswith("of reading and writing memory once")
    with pytest.raises(Skipped, match="one device"):
        check_all_reduce(Machine("CPU", CPUS.devices[:1]))


def test_the_best_of_gpus_is_a_ring_over_the_slowest_link(monkeypatch):
    class Rates:
        def __init__(self, machine):
            pass

        def table(self, sources, targets):
            return [[None, 2.0], [4.0, None]]

    monkeypatch.setattr(speed, "CopyRates", Rates)
    workload = make_workload(CPUS.devices, [[1000]])
    assert speed._best_secs(GPUS, workload) == pytest.approx(4000 / 2e9)


def test_a_reducer_that_fails_is_wrong(monkeypatch, small_gradients):
    def fail(name, *_, **__):
        raise ReductionError("a wrong result: a gradient is off by 50%")

    monkeypatch.setattr(speed, "measure_here", fail)
    with pytest.raises(Wrong, match="xring: a wrong result: a gradient is off by 50%"):
        check_all_reduce(CPUS)


@pytest.mark.parametrize(
    ("rows", "best", "advice"),
    [
        ({"round_robin": 1.0, "nccl": 0.9}, 0.8, ""),
        ({"round_robin": 2.0, "nccl": 1.0}, 0.8, "The default, round_robin, takes 2.0 times as long: use mode='nccl'."),
        ({"round_robin": 2.0, "nccl": 1.0}, 0.1, "All are far below the links: set NCCL_DEBUG=INFO"),
    ],
)
def test_figures_of_gpus_have_advice(rows, best, advice):
    machine = Machine("GPU", ("/device:GPU:0", "/device:GPU:1"))
    found = speed._all_reduce_found(machine, make_workload(CPUS.devices, [[1000]]), rows, best)
    assert found.advice.startswith(advice)
    assert bool(found.advice) == bool(advice)
    assert found.text.startswith("nccl is the fastest")


@pytest.mark.parametrize("count", [1, 2])
def test_images_are_counted(monkeypatch, count):
    monkeypatch.setattr(speed, "_TIMED_STEPS", 5)
    found = check_images(CPUS, count)
    assert found.figures["images_per_sec"] == pytest.approx(count * SMALL.batch / found.figures["step_secs"])
    assert "in place of ResNet-50" in found.figures["network"]


def test_small_memories_take_smaller_batches(monkeypatch):
    batches = []

    def run(trainer, network, clock):
        batches.append(network.batch)
        if network.batch > 16:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM")
        clock.times = [0.5 * n for n in range(9)]

    monkeypatch.setattr(speed, "_run", run)
    assert check_images(GPUS, 1).figures["images_per_sec"] == 32
    assert batches == [64, 32, 16]
    monkeypatch.setitem(speed._BATCHES, "GPU", (64, 32))
    with pytest.raises(tf.errors.ResourceExhaustedError):
        check_images(GPUS, 1)


def test_timing_ends_with_the_time(monkeypatch):
    monkeypatch.setattr(speed, "_TIMED_SECS", 0.0)
    clock = speed._Clock()
    with tf.Graph().as_default():
        speed._run(speed.SimpleTrainer(), SMALL, clock)
    assert len(clock.times) == speed._WARMUP_STEPS + 4


@pytest.mark.parametrize(("network", "convolutions"), [(RESNET50, 53), (SMALL, 9)])
def test_networks_are_what_they_are_called(graph, network, convolutions):
    with TowerContext("", is_training=True):
        image = tf.placeholder(tf.float32, network.shape)
        network.cost(image, tf.zeros([network.batch], tf.int32))
    shapes = [variable.shape for variable in tf.trainable_variables()]
    assert sum(shape.rank == 4 for shape in shapes) == convolutions
    if network is RESNET50:
        assert len(shapes) == 161
        assert sum(shape.num_elements() for shape in shapes) == pytest.approx(25.6e6, rel=0.01)
    else:
        assert f"of {convolutions} convolutions" in network.name
