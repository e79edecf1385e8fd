"""A look at data points that pass."""

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.inspect import PrintData
from tpack.errors import ConfigError


def test_first_points_after_a_reset_are_logged_and_all_are_yielded(capsys):
    ds = PrintData(Counting(5), num=2)
    ds.reset_state()
    assert len(list(ds)) == len(list(ds)) == 5
    text = capsys.readouterr().err
    assert text.count("Data point") == 2
    assert "Data point 1 of Counting: list of 2\n  0: int 1\n  1: str '1'" in text
    ds.reset_state()
    list(ds)
    assert capsys.readouterr().err.count("Data point") == 2


def test_name_depth_and_length_can_be_chosen(capsys):
    list(PrintData(Counting(5), name="train", max_depth=1, max_list=1))
    assert "Data point 0 of train: list of 2\n  0: int 0\n  ... 1 more" in capsys.readouterr().err


@pytest.mark.parametrize("numbers", [{"num": 0}, {"max_depth": 0}, {"max_list": 0}])
def test_bad_number_is_refused(numbers):
    with pytest.raises(ConfigError, match="PrintData got .*=0: wanted an integer of at least 1"):
        PrintData(Counting(), **numbers)
