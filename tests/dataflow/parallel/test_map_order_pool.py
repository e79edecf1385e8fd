"""What pools are; what they do is tested on each of them."""

import pytest

from tpack.dataflow.parallel.map_order import MapPool, Result


def test_pool_must_say_how_it_works():
    with pytest.raises(TypeError, match="abstract"):
        MapPool()


def test_result_is_a_point_or_an_error():
    assert Result(3, [1], None)._asdict() == {"tag": 3, "point": [1], "error": None}
