"""Checks of training: each on two right logical devices, and the words on results that are wrong."""

import numpy as np
import pytest

from tpack.reduction.algorithms.one_device import IdentityReducer, RoundRobinReducer
from tpack.selftest import training
from tpack.selftest.devices import Placed
from tpack.selftest.runner import PRECISIONS, Machine, Skipped, Wrong
from tpack.selftest.training import (
    STEPS,
    TRAINERS,
    Trained,
    check_checkpoint,
    check_compiled,
    check_precision,
    check_reducer,
    check_sums,
    check_trainer,
)

CPUS = Machine("CPU", ("/device:CPU:0", "/device:CPU:1"))


@pytest.mark.parametrize("name", TRAINERS)
def test_each_trainer_is_right(name):
    found = check_trainer(CPUS, name)
    assert found.text.startswith((f"{STEPS} steps, off by", "the cost falls from"))
    assert found.figures.get("off_by", 0.0) < 1e-5


@pytest.mark.parametrize("name", ["xring", "collective"])
def test_reducers_are_right(name):
    assert check_reducer(CPUS, name).figures["off_by"] < 1e-5


def test_what_the_devices_cannot_serve_is_skipped():
    with pytest.raises(Skipped, match="GPU"):
        check_reducer(CPUS, "nccl")
    with pytest.raises(Skipped, match="one device"):
        check_reducer(Machine("CPU", CPUS.devices[:1]), "round_robin")
    with pytest.raises(Skipped, match="even"):
        check_trainer(Machine("CPU", (*CPUS.devices, "/device:CPU:2")), "hierarchical")


@pytest.mark.parametrize("name", PRECISIONS)
def test_16_bits_follow_float32(monkeypatch, name):
    assert 0 < check_precision(CPUS, name).figures["off_by"] < training._TOLERANCE_OF_16_BITS
    monkeypatch.setattr(training, "train", lambda *_, **__: trained())
    monkeypatch.setattr(training, "_one_tower", lambda *_: trained(costs=[2.1]))
    with pytest.raises(Wrong, match="the first cost is 2, in float32 2.1"):
        check_precision(CPUS, name)


@pytest.mark.parametrize(("found", "name"), [((7, 5), "bfloat16"), ((5, 2), "float16")])
def test_16_bits_that_gpus_do_not_have_are_skipped(monkeypatch, found, name):
    monkeypatch.setattr(training, "compute_capability", lambda: found)
    with pytest.raises(Skipped, match=rf"needs compute capability \d\.\d, and a GPU has {found[0]}.{found[1]}"):
        check_precision(Machine("GPU", CPUS.devices), name)


def test_a_compiled_step_and_a_checkpoint_are_right():
    assert check_compiled(CPUS).figures["off_by"] < 1e-4
    assert "equal bits" in check_checkpoint(CPUS).text


def test_a_resumed_training_of_other_bits_is_wrong(monkeypatch):
    monkeypatch.setattr(training, "SaverRestore", lambda path: None)
    runs = iter([0.0, 1e-9])
    monkeypatch.setattr(training, "train", lambda *_, **__: Trained(weights=[{"w": np.float64(next(runs))}] * 2))
    with pytest.raises(Wrong, match="w of a resumed training is not that of one without a break"):
        check_checkpoint(CPUS)


def test_sums_of_no_reduction_name_the_other_device():
    check_sums(CPUS, RoundRobinReducer())
    with pytest.raises(Wrong, match="its sums on /device:CPU:0 are wrong: the part of /device:CPU:1 is missing"):
        check_sums(CPUS, IdentityReducer())
    assert training._what_is_missing(CPUS, np.array([0.0, 0.5])) == "one is off by 0.5, which is no device's part"


def trained(**changes):
    right = {
        "costs": [2.0, 1.0],
        "weights": [{"w": np.ones(3)}, {"w": np.ones(3)}],
        "places": {"tower0/a": Placed("/device:CPU:0", "MatMul"), "tower1/a": Placed("/device:CPU:1", "MatMul")},
        "scopes": ["tower0", "tower1"],
    }
    return Trained(**{**right, **changes})


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"costs": [2.0, float("nan")]}, "the cost of step 2 is not finite"),
        ({"costs": [1.0, 2.0]}, "the cost does not fall: 1, and 2 in the end"),
        (
            {"places": {f"tower{k}/a": Placed("/device:CPU:1", "_MklNativeFusedConv2D") for k in range(2)}},
            "the tower for /device:CPU:0 computes on /device:CPU:1, silently",
        ),
        ({"weights": [{"w": np.ones(3)}, {"w": np.array([1, 1, 1 + 1e-15])}]}, "w on /device:CPU:1 is not that on"),
        (
            {"places": {"tower0/a": Placed("/device:CPU:0", "MatMul")}},
            "nothing of the tower for /device:CPU:1 computes",
        ),
    ],
)
def test_wrong_results_are_named(changes, found):
    training._compared(CPUS, trained(), is_exact=False)
    with pytest.raises(Wrong, match=found):
        training._compared(CPUS, trained(**changes), is_exact=False)


def test_weights_of_one_tower_are_compared(monkeypatch):
    monkeypatch.setattr(training, "_one_tower", lambda *_: trained(weights=[{"w": np.full(3, 1.1)}]))
    with pytest.raises(Wrong, match=r"its weights differ from those of one tower by 0.091 of their size"):
        training._compared(CPUS, trained())
    monkeypatch.setattr(training, "_TOLERANCE", 0.1)
    assert training._compared(CPUS, trained()).figures["off_by"] == pytest.approx(1 / 11)
