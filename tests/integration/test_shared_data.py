"""Real workers share a data set, and others go on with it: each point once an epoch, and the numbers of one process."""

import numpy as np
import pytest

from tests.helpers.shared_data import BATCH, COUNT, VALIDATED
from tests.helpers.worker_job import run_workers, values_of


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """Two workers are ended in the first epoch, three finish it and stop in the second, which one goes on with."""
    directory = tmp_path_factory.mktemp("shared")

    def run(num_workers, stop_at, **arguments):
        scenario = "tests.helpers.shared_data.train"
        outcomes = run_workers(scenario, num_workers, directory, arguments={"stop_at": stop_at, **arguments})
        return values_of(outcomes), "".join(outcome.text for outcome in outcomes)

    return run(2, 5, by_signal=True), run(3, 12), run(1, 10**6, alone=True)


def labels(values, first, last):
    """Return what all workers of a job saw in some steps."""
    return [label for value in values for step in range(first, last + 1) for label in value["seen"][step]]


def test_each_point_comes_once_in_each_epoch_whoever_trains(jobs):
    (two, _), (three, told), (one, told_alone) = jobs
    end_of_two, end_of_three = (max(values[0]["seen"]) for values in (two, three))
    assert [max(value["seen"]) for value in two] == [end_of_two] * 2
    # What was used of the first epoch, of 12 steps, is 2 / 3 of so many of 8 steps, and they finish these.
    assert [value["steps_per_epoch"] for value in (two[0], three[0], one[0])] == [12, 8, 24]
    left = COUNT - 2 * BATCH * end_of_two
    end_of_epoch = end_of_two + left // (3 * BATCH)
    first_epoch = [*labels(two, 1, end_of_two), *labels(three, end_of_two + 1, end_of_epoch)]
    assert sorted(first_epoch) == list(range(COUNT))
    assert min(three[0]["seen"]) == end_of_two + 1
    assert end_of_epoch < end_of_three < end_of_epoch + 8
    second_epoch = [*labels(three, end_of_epoch + 1, end_of_three), *labels(one, end_of_three + 1, max(one[0]["seen"]))]
    assert sorted(second_epoch) == list(range(COUNT))
    assert second_epoch != first_epoch
    assert "The rest of the data of 2 workers is dealt out to 3." in told
    assert "The rest of the data of 3 workers is dealt out to 1." in told_alone


def test_evaluation_and_statistics_are_those_of_all_in_each_worker(jobs):
    wrong = np.arange(VALIDATED) % 2
    for number, (values, _) in zip((3, 1), jobs[1:], strict=True):
        for value in values:
            (found,) = value["statistics"]
            assert found["validation_error"] == wrong.sum() / VALIDATED
            assert found["validation_size"] == np.arange(VALIDATED).mean()
            assert found["mean_of_ranks"] == (number - 1) / 2
            # The mean of the batch sizes in each worker.
            assert found["number"] == pytest.approx(number * BATCH)
            assert found["step_secs/slowest_rank"] in range(number)
        assert all(value["statistics"] == values[0]["statistics"] for value in values)


def test_the_rate_follows_the_number_of_workers(jobs):
    for number, (values, _) in zip((2, 3, 1), jobs, strict=True):
        for value in values:
            assert list(value["rates"]) == [pytest.approx(0.5 * number / 2)]
