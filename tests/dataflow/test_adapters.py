"""Foreign iterables as flows: data points, lengths and positions, on objects that can do what the real ones can."""

import pickle
import sys
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers.flows import Counting
from tests.helpers.foreign import COUNT, FaceDataset, GrainDataset, Loader, MapStyle, Picture, StatefulLoader, Tensor
from tpack.dataflow.adapters import AdaptedData, as_dataflow
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import ConfigError, InputError, WrongTypeError
from tpack.utils import serialize


class OldList(list):
    """Indexed and iterable, as a plain list is."""


FOREIGN = {
    "loader": Loader,
    "map style": MapStyle,
    "grain": GrainDataset,
    "stateful loader": StatefulLoader,
    "hugging face": FaceDataset,
    "list": lambda: OldList([[k] for k in range(COUNT)]),
}
every_kind = pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)


class TensorAgain:
    """What the fake library makes of an array."""

    def __init__(self, array):
        self.array = array

    def numpy_of(self):
        return self.array


@pytest.fixture(autouse=True)
def fake_torch(monkeypatch):
    """Have a library that makes tensors."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(from_numpy=TensorAgain))


def ready(make):
    ds = as_dataflow(make())
    ds.reset_state()
    return ds


def plain(ds):
    """Return a pass as something that can be compared with ==."""
    points = [point.values() if isinstance(point, dict) else point for point in ds]
    return [[np.asarray(part).tolist() for part in point] for point in points]


def stops(run):
    for number in range(2):
        yield from ((number, count, False) for count in (0, 1, 3, COUNT))
        yield number, COUNT, True


@every_kind
def test_interrupted_run_goes_on_with_the_very_next_point(make):
    ds = ready(make)
    run = [plain(ds) for _ in range(4)]
    for number, count, is_at_end in stops(run):
        ds = ready(make)
        for _ in range(number):
            list(ds)
        points = iter(ds)
        if count:
            list(islice(points, count))
        if is_at_end:
            assert list(points) == []
        state = serialize.loads(serialize.dumps(ds.state_dict()))
        other = ready(make)
        other.load_state_dict(state)
        assert serialize.dumps(other.state_dict()) == serialize.dumps(state)
        wanted = run[number + 1 :] if is_at_end else [run[number][count:], *run[number + 1 :]]
        assert [plain(other) for _ in wanted] == wanted, (number, count, is_at_end)


@every_kind
def test_every_pass_is_whole_also_after_one_that_was_broken_off(make):
    ds = ready(make)
    next(iter(ds))
    assert [len(list(ds)) for _ in range(2)] == [COUNT] * 2
    ds.end_pass()
    assert len(list(ds)) == COUNT


@every_kind
def test_length_is_that_of_the_object(make):
    ds = ready(make)
    if hasattr(make(), "__len__"):
        assert len(ds) == COUNT
        return
    with pytest.raises(NotImplementedError, match=r"the \w+ in AdaptedData has no length"):
        len(ds)


@every_kind
def test_flow_can_be_pickled(make):
    ds = ready(make)
    if make is not FOREIGN["list"]:
        next(iter(ds))
    assert len(list(pickle.loads(pickle.dumps(ds)))) == COUNT


def test_tensors_become_arrays_wherever_they_are():
    images = {"a": [Tensor([1, 2]), (Tensor([3.5]), "text")], "b": Picture([[4]]), "c": np.float32(5), "d": None}
    (point,) = as_dataflow([images])
    assert isinstance(point["a"][1], tuple)
    assert (point["a"][0].tolist(), point["a"][1][0].tolist(), point["a"][1][1]) == ([1, 2], [3.5], "text")
    assert isinstance(point["b"], np.ndarray)
    assert (point["b"].tolist(), point["c"].dtype, point["d"]) == ([[4]], np.float32, None)


def test_point_that_is_no_list_becomes_one():
    assert list(as_dataflow([1, "a", (2, 3)])) == [[1], ["a"], (2, 3)]
    assert next(iter(as_dataflow([Tensor([1])])))[0].tolist() == [1]


def test_length_that_an_object_has_and_does_not_know_is_unknown():
    class Streaming(Loader):
        def __len__(self):
            raise TypeError("a stream has no length")

    with pytest.raises(NotImplementedError, match="Streaming in AdaptedData does not know its length: a stream has"):
        len(as_dataflow(Streaming()))


def test_flow_stays_what_it_is():
    ds = Counting()
    assert as_dataflow(ds) is ds


@pytest.mark.parametrize("obj", [3, None, "text", {"a": 1}, b"bytes"])
def test_what_is_no_iterable_of_points_is_refused(obj):
    with pytest.raises(WrongTypeError, match="^as_dataflow got obj="):
        as_dataflow(obj)


def test_iterator_is_refused():
    with pytest.raises(ConfigError, match="as_dataflow got obj=a list_iterator, an iterator: expected an"):
        as_dataflow(iter([1]))


def test_position_that_cannot_be_kept_makes_it_stateless():
    class Odd(StatefulLoader):
        def state_dict(self):
            return {"a": object()}

    ds = ready(Odd)
    points = iter(ds)
    next(points)
    with pytest.raises(StatelessError, match="the position of a Odd cannot be saved"):
        ds.state_dict()


@pytest.mark.parametrize("changes", [{"index": -1}, {"own": 3}, {"own": b"nonsense"}, {"has_ended": 0}, {"more": 1}])
def test_damaged_state_is_refused_and_changes_nothing(changes):
    ds = ready(GrainDataset)
    state = {**ready(GrainDataset).state_dict(), **changes}
    with pytest.raises(InputError):
        ds.load_state_dict(state)
    assert len(list(ds)) == COUNT


def test_state_of_another_flow_is_refused():
    with pytest.raises(InputError, match="AdaptedData got the state of a Other"):
        AdaptedData([1]).load_state_dict({"flow": "Other"})


def test_generator_function_is_called_for_each_pass():
    ds = as_dataflow(lambda: iter([[1], [2]]))
    ds.reset_state()
    assert list(ds) == list(ds) == [[1], [2]]
