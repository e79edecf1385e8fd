"""State of an exchange that belongs to one worker, in trainings of several processes that resume."""

import re

import numpy as np
import pytest

from tests.helpers.encoded_training import EXCHANGES
from tests.helpers.worker_job import run_workers, values_of

MODULE = "tests.helpers.encoded_training"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What two workers return that train with each exchange, and in many ways with one."""
    return values_of(run_workers(f"{MODULE}.trainings", 2, tmp_path_factory.mktemp("trainings")))


def shared(values):
    """Return what all workers must have alike: the weights, and slots of their optimizers."""
    return {name: value for name, value in values.items() if name.split("/")[0] in ("w", "b", "table", "global_step")}


def own(values):
    """Return the state of one worker's exchange."""
    return {name: value for name, value in values.items() if "exchange_gradients" in name}


def assert_same(left, right):
    """Check that trainings have the same weights, slots and state of the exchange, but for counters of one run."""
    left, right = ({**shared(values), **own(values)} for values in (left, right))
    assert left.keys() == right.keys()
    assert len(left)
    assert [name for name in left if not np.array_equal(left[name], right[name])] == []


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_resumed_training_is_an_uninterrupted_one_bit_by_bit_with_the_state_of_each_rank(found, name):
    for worker in found:
        assert_same(worker[f"{name} whole"], worker[f"{name} resumed"])
        has_state = name != "stochastic"
        assert bool(own(worker[f"{name} whole"])) == has_state
        files = [file for file in worker[f"{name} resumed files"] if file.startswith("exchange_state")]
        steps = [4, 8, 12] if has_state else []
        assert sorted(files) == sorted(f"exchange_state-{step}.npz" for step in steps)
    one, other = (own(worker[f"{name} whole"]) for worker in found)
    # A factor of PowerSGD and the momentum of 1-bit Adam are common; errors are not.
    assert all(not np.array_equal(one[key], other[key]) for key in one if key.rsplit("/", 1)[-1] == "error")


COMPARED = [
    *(f"{name} whole" for name in EXCHANGES),
    "three towers",
    "accumulated",
    "several steps",
    "clipped",
    "float16",
]


def test_files_of_checkpoints_that_are_gone_are_removed_within_an_epoch(tmp_path):
    for worker in values_of(run_workers(f"{MODULE}.often_saved", 2, tmp_path)):
        files = [file for file in worker if file.startswith("exchange_state")]
        assert sorted(files) == sorted(f"exchange_state-{step}.npz" for step in (7, 8, 9, 10))


@pytest.mark.parametrize("name", COMPARED)
def test_weights_and_slots_are_equal_in_all_workers_to_the_last_bit(found, name):
    one, other = (shared(worker[name]) for worker in found)
    assert_same(one, other)
    assert one["global_step"] in (8, 12)
    assert np.isfinite(one["w"]).all()


def test_training_with_a_codec_comes_near_the_plain_one(found):
    plain, encoded = (found[0][name]["w"] for name in ("plain", "step by step"))
    assert not np.array_equal(plain, encoded)
    np.testing.assert_allclose(plain, encoded, atol=0.02)


def test_a_codec_of_32_bits_sends_accumulated_gradients_as_they_are(found):
    for worker in found:
        assert_same(worker["accumulated in 32 bits"], worker["accumulated plain"])
        assert not np.array_equal(worker["accumulated"]["w"], worker["accumulated plain"]["w"])
        np.testing.assert_allclose(worker["accumulated"]["w"], worker["accumulated plain"]["w"], atol=0.02)


def test_several_steps_in_a_call_are_steps_one_by_one(found):
    for worker in found:
        assert_same(worker["several steps"], worker["step by step"])


def test_a_step_that_overflows_on_one_worker_leaves_the_state_of_all(found):
    for worker in found:
        assert worker["overflow"]["loss_scale/skipped_steps"] == 8
        assert all(not value.any() for value in own(worker["overflow"]).values())
        assert any(value.any() for value in own(worker["float16"]).values())


def test_one_bit_adam_is_adam_bit_by_bit_before_the_freeze(found):
    for worker in found:
        assert_same(shared(worker["adam"]), shared(worker["adam before the freeze"]))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("other freeze", "start_step=6, and the optimizer is OneBitAdam: expected OneBitAdam with .*freeze_step=6"),
        ("other optimizer", "the optimizer is MomentumOptimizer: expected OneBitAdam"),
        ("other codec", "the exchange: .*Int8.chunk=2048.* in worker 0, "),
    ],
)
def test_what_does_not_go_together_is_an_error_on_all_workers(found, name, words):
    for worker in found:
        assert worker[name].startswith(("ConfigError", "ClusterError"))
        assert re.search(words, worker[name]), worker[name]


def test_a_signal_ends_training_and_it_goes_on_with_the_state(tmp_path):
    whole = values_of(run_workers(f"{MODULE}.resume", 2, tmp_path / "whole", arguments={"max_epoch": 2}))
    ended = run_workers(f"{MODULE}.resume", 2, tmp_path / "ended", arguments={"max_epoch": 2, "signal_at": 1})
    assert [outcome.code for outcome in ended] == [0, 143]
    said = f"Gradients that are encoded by int8: 1; {48 * 48 + 16} bytes of {4 * 48 * 48} to another worker in a step."
    assert [outcome.text.count(said) for outcome in ended] == [1, 0]
    assert (tmp_path / "ended" / "log-rank1").glob("exchange_state-*.npz")
    outcomes = run_workers(f"{MODULE}.resume", 2, tmp_path / "ended", arguments={"max_epoch": 2})
    for worker, wanted in zip(values_of(outcomes), whole, strict=True):
        assert_same(worker, wanted)
    assert "starts over" not in outcomes[0].text
    # Another number of workers, and files that are gone.
    outcomes = run_workers(f"{MODULE}.resume", 3, tmp_path / "ended", arguments={"max_epoch": 3})
    values_of(outcomes)
    said = "The state of the exchange between workers starts over: worker 0 has a file of other workers, "
    assert [outcome.text.count("starts over") for outcome in outcomes] == [1, 0, 0]
    assert said in outcomes[0].text
    (tmp_path / "ended" / "log-rank2" / "exchange_state-12.npz").unlink()
    outcomes = run_workers(f"{MODULE}.resume", 3, tmp_path / "ended", arguments={"max_epoch": 4})
    values_of(outcomes)
    assert "starts over: worker 2 has no file " in outcomes[0].text


def test_bytes_on_the_network_are_those_of_the_formula(tmp_path):
    count = 48 * 2**14
    for worker in values_of(run_workers(f"{MODULE}.traffic", 2, tmp_path)):
        for name, size in (
            ("plain", 4 * count),
            ("int8", count + 8 * count // 2048),
            ("one_bit", count // 8 + 4 * count // 2048),
            ("top_k:0.05", 8 * (count // 2**16) * round(0.05 * 2**16)),
        ):
            np.testing.assert_allclose(worker[name], size, rtol=0.02, err_msg=name)
