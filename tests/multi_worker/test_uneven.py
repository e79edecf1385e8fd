"""Workers whose data end early train as one process on the batches that are left."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.helpers.log_lines import captured_log
from tests.helpers.uneven_workers import POINTS, expected
from tests.helpers.worker_job import run_workers, values_of
from tpack.dataflow.base import DataFlow, UnknownLengthError
from tpack.dataflow.repeat import RepeatedData
from tpack.dataflow.sources import DataFromGenerator, DataFromList
from tpack.errors import ConfigError, DataExhaustedError, DataPointError
from tpack.input_source.queue_input import QueueInput
from tpack.multi_worker.uneven import UnevenData, flow_of_uneven_data


class Unknown(DataFlow):
    """Points of a list, in a flow that knows its position and not its length."""

    def __init__(self, count: int) -> None:
        self._flow = DataFromList([[n] for n in range(count)], shuffle=False)

    def __len__(self) -> int:
        raise UnknownLengthError("unknown")

    def __iter__(self) -> Iterator[Any]:
        return iter(self._flow)

    def reset_state(self) -> None:
        super().reset_state()
        self._flow.reset_state()

    def state_dict(self) -> dict[str, Any]:
        return self._flow.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._flow.load_state_dict(state)

    def end_pass(self) -> None:
        self._flow.end_pass()


def of_list(count: int) -> DataFlow:
    return DataFromList([[n] for n in range(count)], shuffle=False)


def opened(flow: DataFlow) -> DataFlow:
    flow.reset_state()
    return flow


def test_a_pass_ends_with_its_last_point_of_weight_0() -> None:
    flow = opened(UnevenData(of_list(3), 5))
    assert len(flow) == 5
    for _ in range(2):
        points = list(flow)
        assert points == [[0, 1], [1, 1], [2, 1], [2, 0], [2, 0]]
    assert points[0][-1].dtype == np.float32


def test_named_components_and_tuples_get_a_weight() -> None:
    (point,) = opened(UnevenData(DataFromList([{"x": 1}], shuffle=False), 1))
    assert point.pop("x") == 1
    assert list(point.values()) == [1]
    assert list(opened(UnevenData(DataFromList([(1, 2)], shuffle=False), 1))) == [[1, 2, 1]]


@pytest.mark.parametrize("make", [of_list, Unknown])
@pytest.mark.parametrize("taken", range(11))
def test_a_run_goes_on_from_each_position(make: Any, taken: int) -> None:
    flow = RepeatedData(UnevenData(make(3), 5), 2)
    opened(flow)
    points = iter(flow)
    for _ in range(taken):
        next(points)
    state = flow.state_dict()
    other = opened(RepeatedData(UnevenData(make(3), 5), 2))
    other.load_state_dict(state)
    assert list(other) == list(points)


def test_a_longer_pass_is_cut_with_a_warning() -> None:
    flow = opened(UnevenData(of_list(4), 3))
    with captured_log() as lines:
        found = [list(flow), list(flow)]
    assert found == [[[0, 1], [1, 1], [2, 1]]] * 2
    assert sum("leaves out the rest of a pass of DataFromList" in line for line in lines) == 1


def test_data_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(DataExhaustedError, match="DataFromGenerator yielded nothing: UnevenData needs a data point"):
        list(opened(UnevenData(DataFromGenerator(lambda: iter(())), 3)))
    with pytest.raises(DataPointError, match="UnevenData got a data point of int: expected a list, tuple or dict"):
        list(opened(UnevenData(DataFromList([1], shuffle=False), 3)))
    with pytest.raises(ConfigError, match="UnevenData got size=0"):
        UnevenData(of_list(3), 0)
    with pytest.raises(ConfigError, match="UnevenData got RepeatedData around it: expected to be the outermost flow"):
        flow_of_uneven_data(QueueInput(RepeatedData(UnevenData(of_list(3), 5), 2)))
    assert flow_of_uneven_data(QueueInput(of_list(3))) is None


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: Any) -> Any:
    """What two workers with 3 and 7 data points return that train in several ways."""
    outcomes = run_workers("tests.helpers.uneven_workers.train_uneven", 2, tmp_path_factory.mktemp("uneven"))
    return [{**found, "text": each.text} for found, each in zip(values_of(outcomes), outcomes, strict=True)]


@pytest.mark.parametrize(
    ("name", "towers", "op", "tolerance"),
    [("means", 2, "mean", 1e-13), ("sums", 2, "sum", 1e-12), ("many", 4, "mean", 1e-13), ("encoded", 1, "mean", 2e-2)],
)
def test_a_step_is_the_mean_over_those_with_data(
    trainings: Any, name: str, towers: int, op: str, tolerance: float
) -> None:
    weights, table = expected(towers, op=op)
    for found in trainings:
        result = found[name]
        np.testing.assert_allclose(
            result["seen"], [[each] * towers for each in weights], rtol=tolerance, atol=tolerance
        )
        np.testing.assert_allclose(result["last"]["table"][:, 0], table, rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(result["last"]["table"], trainings[0][name]["last"]["table"])
        assert result["seen"] == trainings[0][name]["seen"]


def test_one_worker_leaves_out_the_towers_without_data(tmp_path: Any) -> None:
    (found,) = values_of(run_workers("tests.helpers.uneven_workers.train_alone", 1, tmp_path))
    weights, table = expected(2, workers=POINTS[1:])
    np.testing.assert_allclose(found["seen"], [[each] * 2 for each in weights], rtol=1e-13)
    np.testing.assert_allclose(found["last"]["table"][:, 0], table, rtol=1e-13)


def test_weights_are_with_the_first_worker_after_training(trainings: Any) -> None:
    of_chief, of_other = (found["means"]["afterwards"] for found in trainings)
    assert of_other == (
        "get_weights was called after training in another worker than 0, which alone keeps them: expected a "
        "session; use the checkpoints of ModelSaver"
    )
    assert of_chief == "table, w"


def test_sizes_must_fit_the_epoch_and_the_other_workers(trainings: Any) -> None:
    for found in trainings:
        assert "UnevenData got size=8 and 3 steps an epoch of 2 towers: expected size=6" in found["other steps"]
        assert "size=[8, 10] in the workers by rank" in found["other sizes"]


def test_steps_in_which_nobody_has_data_are_told_once(trainings: Any) -> None:
    said = (
        "UnevenData(size=10) got 7 data points in the longest pass of all workers: the last 1 steps of an epoch apply "
        "gradients of zero."
    )
    assert [found["text"].count(said) for found in trainings] == [1, 0]
    assert [found["text"].count("got 7 data points") for found in trainings] == [1, 0]


def test_statistics_and_tables_of_all_workers_are_refused(trainings: Any) -> None:
    for found in trainings:
        statistics, tables = found["of all workers"]
        assert "MultiWorkerTrainerReplicated, without sync_every_steps or UnevenData" in statistics
        assert "sharded_embedding got name='dealt' with UnevenData: expected a trainer without it" in tables


def test_options_that_do_not_go_together_are_refused(trainings: Any) -> None:
    for found in trainings:
        for text, option in zip(
            found["refused"],
            ("accumulate=2", "shard_optimizer=True", "sync_every_steps=2", "exchange='adasum'"),
            strict=True,
        ):
            assert f"MultiWorkerTrainerReplicated got {option} and UnevenData" in text
