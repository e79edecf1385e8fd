"""Some components of data points."""

import pickle

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.mapping import SelectComponent
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, DataPointError


def test_components_come_in_the_order_given():
    assert list(SelectComponent(Counting(2), [1, 0, 1])) == [["0", 0, "0"], ["1", 1, "1"]]
    ds = SelectComponent(DataFromList([{"a": 1, "b": 2}], shuffle=False), ["b"])
    assert list(pickle.loads(pickle.dumps(ds))) == [[2]]


@pytest.mark.parametrize("idxs", [[], 1, None])
def test_what_is_no_list_of_places_is_refused(idxs):
    with pytest.raises(ConfigError, match="SelectComponent got idxs=.*: wanted a list of at least one place"):
        SelectComponent(Counting(), idxs)


def test_missing_component_is_named():
    with pytest.raises(DataPointError, match=r"a data point, a list, has not all of the components \[0, 5\]"):
        list(SelectComponent(Counting(), [0, 5]))
