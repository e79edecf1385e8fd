"""Random data points of given shapes, types and ranges."""

import numpy as np
import pytest

from tpack.dataflow.sources import FakeData
from tpack.errors import ConfigError, InputError


def points_of(*args, **kwargs):
    ds = FakeData(*args, **kwargs)
    ds.reset_state()
    return list(ds)


def test_default_is_float32_between_0_and_1():
    points = points_of([(64, 3), ()], size=5)
    assert [component.shape for component in points[0]] == [(64, 3), ()]
    for component in points[0]:
        assert component.dtype == np.float32
        assert ((component >= 0) & (component <= 1)).all()
    assert not np.array_equal(points[0][0], points[1][0])


def test_each_component_has_its_type_and_range():
    points = points_of([[100], [100]], size=3, dtype=["uint8", "float64"], domain=[(0, 10), (-5, -4)])
    first, second = points[0]
    assert first.dtype == np.uint8
    assert set(np.unique(np.concatenate([point[0] for point in points]))) == set(range(10))
    assert second.dtype == np.float64
    assert ((second >= -5) & (second < -4)).all()


def test_not_random_yields_one_point_again_and_again():
    points = points_of([(4,)], size=3, random=False)
    assert len(points) == 3
    assert all(point[0] is points[0][0] for point in points)


def test_reset_is_wanted():
    with pytest.raises(InputError, match="FakeData needs random numbers"):
        list(FakeData([(2,)]))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"size": 0}, "FakeData got size=0"),
        ({"dtype": ["uint8"]}, "got 2 shapes and 1 of dtype"),
        ({"domain": [(0, 1)] * 3}, "got 2 shapes and 3 of domain"),
        ({"dtype": "nonsense"}, r"shapes\[0\]=.*nonsense"),
        ({"domain": (1, 0)}, r"shapes\[0\]=\(2,\) and domain=\(1, 0\): expected sizes of at least 0 and a range"),
        ({"domain": (1,)}, r"domain\[0\]=1"),
        ({"shapes": [(2,), (-1,)]}, r"shapes\[1\]=\(-1,\) and domain=\(0, 1\): expected sizes of at least 0"),
    ],
)
def test_bad_argument_raises(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        FakeData(**{"shapes": [(2,), (3,)], **kwargs})
