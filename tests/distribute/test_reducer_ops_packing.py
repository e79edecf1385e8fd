import pytest

from tpack.distribute.reducer_ops import Packing
from tpack.errors import ConfigError
from tpack.reduction.algorithms.one_device import RoundRobinReducer


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ((2, 0, 10), "concat_split_round_robin"),
        ((2, 64, 10), "concat_split_round_robin"),
        ((0, 64, 10), "small_tensors_round_robin"),
        ((0, 64, 0), "round_robin"),
        ((0, 0, 10), "round_robin"),
    ],
)
def test_the_first_packing_that_is_asked_for_is_taken(numbers: tuple[int, int, int], name: str) -> None:
    assert Packing(*numbers).wrap(RoundRobinReducer()).name == name


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_negative_numbers_are_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match="of 0 or more, got"):
        Packing(*numbers)
