"""Feeding in the step's own thread: the end of finite data, and what is fed."""

import numpy as np
import pytest

from tests.helpers.run_input import running
from tpack.dataflow import DataFlow, DataFromList
from tpack.errors import ConfigError, DataExhaustedError
from tpack.input_source import FeedInput


def points(number):
    return DataFromList([[np.zeros([1, 2]), k] for k in range(number)], shuffle=False)


def test_finite_data_ends_with_an_error(graph):
    with running(FeedInput(points(3), infinite=False)) as run:
        assert run.labels(3) == [0, 1, 2]
        with pytest.raises(DataExhaustedError, match="the data of FeedInput ended after 3 data points"):
            run.step()


def test_finite_data_can_be_used_again_after_a_reset(graph):
    with running(FeedInput(points(3), infinite=False)) as run:
        for _ in range(2):
            assert run.labels(3) == [0, 1, 2]
            run.source.reset_state()


def test_finite_data_that_is_too_short_for_all_towers_is_an_error(graph):
    with running(FeedInput(points(3), infinite=False), num_towers=2) as run:
        run.step()
        with pytest.raises(DataExhaustedError, match="after 3 data points"):
            run.step()


def test_towers_have_placeholders_of_their_own(graph):
    with running(FeedInput(points(1)), num_towers=2) as run:
        assert [towers[0].name for towers in run.inputs] == ["FeedInput/image:0", "FeedInput/image_1:0"]


def test_the_end_of_training_ends_the_iteration(graph):
    class Watched(DataFlow):
        ended = False

        def __iter__(self):
            try:
                while True:
                    yield [np.zeros([1, 2]), 0]
            finally:
                self.ended = True

    ds = Watched()
    with running(FeedInput(ds)) as run:
        run.step()
        assert not ds.ended
    assert ds.ended


def test_something_else_than_a_dataflow_is_an_error():
    with pytest.raises(ConfigError, match=r"FeedInput got ds=\[\]: expected a DataFlow; as_dataflow makes one"):
        FeedInput([])
