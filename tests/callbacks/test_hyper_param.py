from types import SimpleNamespace

import pytest

from tpack.callbacks.hyper_param import HyperParam, ObjAttrParam
from tpack.errors import CallbackError


def test_an_attribute_is_read_and_set():
    optimizer = SimpleNamespace(rate=0.1)
    param = ObjAttrParam(optimizer, "rate")
    param.set_value(0.2)
    assert (param.get_value(), optimizer.rate) == (0.2, 0.2)
    assert param.readable_name == "rate"
    assert str(ObjAttrParam(optimizer, "rate", readable_name="speed")) == "ObjAttrParam(speed)"


def test_an_attribute_that_is_not_there_lists_near_names():
    with pytest.raises(CallbackError, match="no attribute 'rat'; near names: rate"):
        ObjAttrParam(SimpleNamespace(rate=0.1), "rat")
    with pytest.raises(CallbackError, match="no attribute 'xyz'$"):
        ObjAttrParam(SimpleNamespace(rate=0.1), "xyz")


def test_setup_calls_what_a_subclass_overrides():
    class Counting(HyperParam):
        num_setups = 0
        readable_name = "counting"

        def setup_graph(self):
            self.num_setups += 1

        def set_value(self, value):
            raise AssertionError(value)

        def get_value(self):
            return self.num_setups

    param = Counting()
    param.setup(None)
    assert param.get_value() == 1
