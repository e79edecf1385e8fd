"""Data points that are a part of a state."""

import numpy as np
import pytest

from tpack.dataflow.state import StatelessError, freeze_points, thaw_points
from tpack.errors import InputError
from tpack.utils import serialize


def test_points_come_back_as_they_were_and_are_not_shared():
    points = [[np.zeros(2), "a"], (1, 2), {"x": 3}]
    found = thaw_points(None, freeze_points(None, points))
    assert found[0][0] is not points[0][0]
    assert found[1:] == [(1, 2), {"x": 3}]
    assert found[0][1] == "a"


def test_what_cannot_be_serialized_makes_a_flow_stateless():
    with pytest.raises(StatelessError, match=r"str cannot tell its position, with the data points .* builtins.object"):
        freeze_points("owner", [[object()]])


@pytest.mark.parametrize("frozen", [None, [], b"", b"nonsense", serialize.dumps([1]), serialize.dumps([[True, 3]])])
def test_something_else_is_refused(frozen):
    with pytest.raises(InputError, match="the state of a str holds no data points where it should"):
        thaw_points("owner", frozen)
