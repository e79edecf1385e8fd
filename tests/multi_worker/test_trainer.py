import re

import numpy as np
import pytest

from tests.helpers.equivalence import one_tower
from tests.helpers.toy_training import Line, Recorder, line_input
from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import ConfigError
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.multi_worker.trainer import WaitLimits
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.utils.tf_config import ClusterTask


def equal_bits(left, right):
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(
    ("workers", "towers", "by", "optimizers", "compiled"),
    [(2, 2, "RANK", ["momentum", "adam"], "momentum"), (3, 1, "TF_CONFIG", ["sgd", "adam"], "")],
    ids=["two workers with two towers", "three workers with one tower"],
)
def test_workers_and_towers_equal_one_tower_with_the_whole_batch(tmp_path, workers, towers, by, optimizers, compiled):
    arguments = {"towers": towers, "optimizers": optimizers, "size": workers, "compiled": compiled}
    outcomes = run_workers("train_equivalence", workers, tmp_path, by=by, arguments=arguments)
    found = values_of(outcomes)
    assert ("XLA compiles" in outcomes[0].text) == bool(compiled)
    for name in found[0]:
        oracle = one_tower(name.split()[0], workers * towers).weights[0]
        chief = found[0][name]
        for weight, wanted in oracle.items():
            np.testing.assert_allclose(chief[weight], wanted, rtol=1e-9, atol=1e-12, err_msg=f"{name} {weight}")
            for tower in range(1, towers):
                assert np.array_equal(chief[f"tower{tower}/{weight}"], chief[weight])
        assert all(equal_bits(chief, other[name]) for other in found[1:])


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """What two workers return that train in several ways."""
    return values_of(run_workers("features", 2, tmp_path_factory.mktemp("features")))


TRAINED = ["two towers", "plain", "several steps", "sum", "bfloat16", "overflow", "compiled in several steps"]
TRAINED += ["compiled or not"]


@pytest.mark.parametrize("name", TRAINED)
def test_trained_variables_of_workers_are_equal_bit_by_bit(features, name):
    chief, other = (found[name] for found in features)
    for variable in ("w", "w/Momentum", "learning_rate", "global_step"):
        assert np.array_equal(chief[variable], other[variable])
    assert chief["global_step"] == 6
    assert np.isfinite(chief["w"]).all()


def test_what_is_not_trained_is_the_chiefs_when_the_steps_of_an_epoch_are_made(features):
    # Six steps; the means of the data are 0.25 in the chief and 0.5 in the other worker.
    assert [found["plain"]["seen"] for found in features] == [1.5, 1.5]


def test_what_workers_evaluate_is_the_chiefs_model(features):
    assert [found["evaluated"] for found in features] == [1.5, 1.5]


def test_an_overflow_on_one_worker_leaves_out_the_step_on_all(features):
    for found in features:
        assert found["overflow"]["loss_scale/skipped_steps"] == 6
        assert not found["overflow"]["w/Momentum"].any()


def test_nan_is_blamed_on_the_worker_in_which_it_arose(tmp_path):
    found = values_of(run_workers("not_finite", 2, tmp_path))
    origins = {"cost of (0,)": 0, "cost of (1,)": 1, "gradients": 1, "several steps": 1, "its step": 1}
    origins |= {"a strategy of 1": 1, "a strategy of 2": 1}
    for name, origin in origins.items():
        assert found[origin][name].startswith("NumericsError: "), name
        other = found[1 - origin][name]
        assert other.startswith(f"PeerLostError: worker {origin} failed: NumericsError: "), name
        assert other.endswith(
            "NaN or infinity was in its own cost or gradients first, and came to the others by the sums"
        )
    assert all(each["cost of (0, 1)"].startswith("NumericsError: cost ") for each in found)


def test_a_sum_over_workers_goes_further_than_a_mean(features):
    steps = {name: np.abs(features[0][name]["w/Momentum"]).max() for name in ("sum", "plain")}
    assert steps["sum"] != steps["plain"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("other variables", 'variables: own: nothing in worker 0, "float32 (2,), trained" in worker 1'),
        ("other order", 'the order of variables, number 1: "u" in worker 0, "v" in worker 1'),
        ("other order with a strategy", 'the order of variables, number 1: "u" in worker 0, "v" in worker 1'),
        (
            "other order of callbacks",
            'the order of variables that worker 0 sends to all, number 6: "made_first" in worker 0, "made_second" in',
        ),
        ("other steps", "the last epoch: 2 in worker 0, 3 in worker 1"),
        ("other reducer", "the reducer: "),
        ("other optimizer", "the optimizer: MomentumOptimizer.momentum: 0.9 in worker 0, 0.5 in worker 1"),
        ("changed on one", "checksums after step 3: w: "),
        ("other session", "got session_creator="),
    ],
)
def test_what_cannot_be_trained_together_is_an_error_on_all_workers(features, name, words):
    assert all(words in found[name] for found in features)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("stop in a step", 2),
        ("stop in the last step", 3),
        ("stop after an epoch", 3),
        ("stop in several steps", 9),
        ("stop of the chief in several steps", 4),
        ("time is over", 2),
    ],
)
def test_workers_end_together_when_one_wants_to(features, name, steps):
    assert [found[name] for found in features] == [steps, steps]


def test_a_signal_ends_several_steps_of_all_workers_after_the_same_one(features):
    (one, steps), (other, other_steps) = (found["interrupted in several steps"] for found in features)
    assert (one, other) == ("ended well", "KeyboardInterrupt")
    assert 0 < steps == other_steps < 2_000_000


def test_the_batch_size_counts_the_examples_of_all_towers_of_all_workers(features):
    assert [found["steps of a pass"] for found in features] == [4, 4]
    assert [found["steps of a pass over arrays"] for found in features] == [4, 4]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """What two workers save when their values differ."""
    return values_of(run_workers("saves", 2, tmp_path_factory.mktemp("saves")))


@pytest.mark.parametrize(
    ("name", "words", "files"),
    [
        ("other worker", "what is saved of step 4: w: ", ["model-2.index"]),
        ("chief", "what is saved of step 4: w: ", ["model-2.index"]),
        ("slot", "what is saved of step 4: w/Momentum: ", ["model-2.index"]),
        ("asynchronous", "what is saved of step 4: w: ", ["model-2.index"]),
        ("best", "what is saved of step 4: w: ", ["max-score.index"]),
        ("time is over", "what is saved of step 2: w: ", []),
        ("signal", "what is saved of step 2: w: ", []),
    ],
)
def test_weights_that_differ_between_workers_are_not_saved(saved, name, words, files):
    for found in saved:
        assert found[name][0].startswith("ClusterError: the workers do not agree"), found[name]
        assert f"checksums of {words}" in found[name][0]
    assert saved[0][name][1] == files


def test_workers_that_are_equal_save(saved):
    assert [found["equal"][0] for found in saved] == ["ended well"] * 2
    models = ["model-2.index", "model-4.index", "model-6.index"]
    assert [found["equal"][1] for found in saved] == [["max-score.index", *models], []]


def test_a_change_between_epochs_is_saved_as_the_chief_has_it_with_a_warning(saved):
    assert [found["end of epoch"][0] for found in saved] == ["ended well"] * 2
    assert saved[0]["end of epoch"][1] == ["model-12.index", "model-6.index"]
    said = "Callbacks have changed one worker alone, and worker 0's values are saved"
    assert all(said in found["end of epoch"][2] for found in saved)


@pytest.fixture(scope="module")
def of_lengths(tmp_path_factory):
    """What two workers return that train on data of different lengths."""
    return values_of(run_workers("lengths", 2, tmp_path_factory.mktemp("lengths")))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("known", "the data below ShardData 1: points: 10 in worker 0, 7 in worker 1"),
        ("unknown", "found after step 6: pass 1 has 5 in worker 0, 4 in worker 1 as its share; expected the same data"),
        ("other list", "the data below ShardData 1: checksum of a list: "),
        ("ends", "the data of worker 1 ended after step 2 of 6 in epoch 2: the data of FeedInput ended after 8"),
    ],
)
def test_data_that_end_earlier_in_a_worker_are_an_error(of_lengths, name, words):
    assert all(words in found[name][0] for found in of_lengths)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("its own", "data have different numbers of batches: 10 in worker 0, 7 in worker 1. All make the same steps"),
        ("its own, unknown", "data end after different numbers of batches: 8 in worker 0, 5 in worker 1. All make"),
    ],
)
def test_other_lengths_of_own_data_are_reported_by_the_chief(of_lengths, name, words):
    assert [found[name][0] for found in of_lengths] == ["ended well"] * 2
    assert [words in found[name][1] for found in of_lengths] == [True, False]


@pytest.mark.parametrize("name", ["equal", "its own, nearly equal"])
def test_data_of_equal_length_are_not_reported(of_lengths, name):
    assert [found[name][0] for found in of_lengths] == ["ended well"] * 2
    assert "different numbers" not in of_lengths[0][name][1]


def run_resume(directory, num_workers, **arguments):
    return run_workers("resume", num_workers, directory, arguments=arguments)


def test_checkpoints_of_two_workers_restore_in_one_and_the_other_way(tmp_path):
    first = values_of(run_resume(tmp_path, 2, max_epoch=1))
    assert [found["directory"] for found in first] == [f"{tmp_path}/log", f"{tmp_path}/log-rank1"]
    assert [any("model-" in name for name in found["files"]) for found in first] == [True, False]
    (alone,) = values_of(run_resume(tmp_path, 1, max_epoch=2, towers=2))
    assert np.array_equal(alone["start"]["w"], first[0]["values"]["w"])
    assert np.array_equal(alone["start"]["w/Momentum"], first[0]["values"]["w/Momentum"])
    again = values_of(run_resume(tmp_path, 2, max_epoch=3))
    for found in again:
        assert np.array_equal(found["start"]["w"], alone["values"]["w"])
        assert (found["start"]["global_step"], found["values"]["global_step"]) == (6, 9)
        assert equal_bits({"w": found["values"]["w"]}, {"w": again[0]["values"]["w"]})


def test_a_signal_to_one_worker_ends_all_after_the_same_step_and_saves_it(tmp_path):
    chief, told = run_resume(tmp_path, 2, max_epoch=5, at=[1, 1], how="signal")
    assert (chief.code, told.code) == (0, 143), chief.text + told.text
    assert all("Training was ended by a signal after step 2." in each.text for each in (chief, told))
    assert (tmp_path / "log" / "model-2.index").exists()


@pytest.mark.parametrize(
    ("how", "rank", "code", "words"),
    [
        ("kill", 1, -9, "worker 1 was lost"),
        ("kill", 0, -9, "worker 0 was lost"),
        ("raise", 1, 1, "worker 1 failed: RuntimeError: the test wants a failure"),
    ],
)
def test_a_lost_worker_is_named_by_the_others(tmp_path, how, rank, code, words):
    outcomes = run_resume(tmp_path, 2, max_epoch=50, at=[rank, 4], how=how)
    assert outcomes[rank].code == code
    survivor = outcomes[1 - rank]
    assert survivor.code not in (0, -9)
    assert words in survivor.text
    # What was saved last is that of the last epoch.
    assert sorted(path.name for path in (tmp_path / "log").glob("*.index")) == ["model-3.index"]


def test_a_worker_that_others_wait_for_in_a_step_is_named_on_all(tmp_path):
    outcomes = run_workers("straggle", 2, tmp_path)
    assert values_of(outcomes) == [6, 6]
    said = "worker 1 made no step for .* and the others wait for it"
    assert all(re.search(said, each.text) for each in outcomes), outcomes[0].text


@pytest.mark.parametrize("place", ["forward", "backward"])
def test_a_worker_that_hangs_in_a_step_is_lost(tmp_path, place):
    waiting, hanging = run_workers("hang", 2, tmp_path, arguments={"place": place})
    lost = "worker 1 was lost: the others have waited for its part of step 3 for 8 s .step_timeout_secs."
    assert (waiting.code, hanging.code) == (1, 1)
    assert re.search(f"PeerLostError: {lost}", waiting.text), waiting.text
    assert "Training did not return within 5 s: the process is ended" in hanging.text
    assert re.search(f"Rank 1 ends with code 1: {lost}", hanging.text)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: WaitLimits(heartbeat_secs=0), "heartbeat_secs"),
        (lambda: WaitLimits(heartbeat_secs=5, straggler_secs=1), "straggler_secs"),
        (lambda: WaitLimits(step_timeout_secs=0), "step_timeout_secs"),
        (lambda: MultiWorkerTrainerReplicated(1, wire_dtype="int8"), "wire_dtype='int8': expected float16 or bfloat16"),
        (lambda: MultiWorkerTrainerReplicated(0), "expected at least one tower"),
        (
            lambda: MultiWorkerTrainerReplicated(1, cluster=ClusterTask({"worker": ["a:1"], "ps": ["b:1"]}, "ps", 0)),
            "MultiWorkerTrainerReplicated got this process is ps 0",
        ),
    ],
    ids=["heartbeat", "straggler", "step", "wire", "towers", "ps"],
)
def test_wrong_settings_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_one_process_trains_as_on_one_machine():
    config = TrainConfig(model=Line(), data=line_input(), steps_per_epoch=5, max_epoch=2, monitors=[])
    recorder = Recorder()
    config.callbacks.append(recorder)
    trainer = MultiWorkerTrainerReplicated(2)
    launch_train_with_config(config, trainer)
    assert (trainer.is_chief, trainer.peers.size, trainer.stop_flag.total) == (True, 1, None)
    assert recorder.weights["global_step"] == 10
    assert recorder.weights["w"] > 0
