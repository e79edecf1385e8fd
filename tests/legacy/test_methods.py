"""Methods under older names take the place of today's, in flows and models, and in mixtures of both."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.dataflow.base import DataFlow, ProxyDataFlow, RNGDataFlow, UnknownLengthError
from tpack.dataflow.batch import BatchData
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.legacy.code.training import InputDesc


class Older(RNGDataFlow):
    def size(self):
        return 3

    def get_data(self):
        for number in range(3):
            yield [number]


class Doubled(ProxyDataFlow):
    def get_data(self):
        for (number,) in self.ds.get_data():
            yield [2 * number]


class OfOlder(Older):
    def get_data(self):
        for (number,) in super().get_data():
            yield [number + 1]


class OfOlderToday(OfOlder):
    def __iter__(self):
        for (number,) in super().__iter__():
            yield [number * 10]


class OfToday(DataFromList):
    def get_data(self):
        for point in super().get_data():
            yield [*point, "more"]


class Mixin:
    def get_data(self):
        return [[number] for number in (7, 8)]


class Mixed(Mixin, ProxyDataFlow):
    pass


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (Older(), [[0], [1], [2]]),
        (Doubled(Older()), [[0], [2], [4]]),
        (OfOlder(), [[1], [2], [3]]),
        (OfOlderToday(), [[10], [20], [30]]),
        (OfToday([[1], [2]], shuffle=False), [[1, "more"], [2, "more"]]),
        (Mixed(Older()), [[7], [8]]),
    ],
)
def test_a_flow_is_the_same_by_both_names(flow, expected):
    flow.reset_state()
    assert list(iter(flow)) == expected
    assert list(flow.get_data()) == expected
    assert len(flow) == flow.size()


def test_flows_of_today_stand_on_older_ones():
    flow = BatchData(Doubled(Older()), 3)
    flow.reset_state()
    assert [list(numbers) for (numbers,) in flow.get_data()] == [[0, 2, 4]]
    assert flow.size() == 1


def test_a_length_that_is_unknown_is_so_by_both_names():
    class Endless(DataFlow):
        def get_data(self):
            yield [1]

    with pytest.raises(UnknownLengthError, match="does not know its length"):
        Endless().size()


def test_a_helper_of_a_users_base_is_left_alone():
    class Base(DataFlow):
        def __iter__(self):
            for number in self.get_data(2):
                yield [number]

    class Derived(Base):
        def get_data(self, count):
            return range(count)

    assert list(Derived()) == [[0], [1]]


def test_a_number_called_size_is_left_alone():
    class Sized(DataFromList):
        size = 5

    assert (len(Sized([[1]])), Sized([[1]]).size) == (1, 5)


class Model(ModelDesc):
    def _get_inputs(self):
        return [InputDesc(tf.float32, [None, 2], "x"), InputDesc(tf.int32, [None], "y")]

    def _build_graph(self, inputs):
        x, y = inputs
        return x.shape.as_list(), y.dtype

    def _get_optimizer(self):
        return tf.train.GradientDescentOptimizer(0.5)


class Derived(Model):
    def _build_graph(self, inputs):
        return ["derived", super()._build_graph(inputs)]


@pytest.mark.usefixtures("graph")
def test_a_model_is_the_same_by_both_names():
    placeholders = [tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [None])]
    model = Derived()
    assert [(spec.name, spec.dtype) for spec in model.get_input_signature()] == [("x", tf.float32), ("y", tf.int32)]
    assert model.get_inputs_desc() == model.get_input_signature()
    assert model.build_graph(*placeholders) == model.build_graph(placeholders) == ["derived", ([None, 2], tf.int32)]
    assert model.get_optimizer() is model.get_optimizer()


def test_what_is_not_defined_by_either_name_is_said_by_todays():
    class Empty(ModelDesc):
        pass

    with pytest.raises(ConfigError, match=r"Empty must define inputs\(\)"):
        Empty().get_input_signature()
