"""A flow over the rows of arrays."""

import h5py
import numpy as np
import pytest

from tpack.dataflow.arrays import DataFromArrays, is_array
from tpack.errors import ConfigError, WrongTypeError

X, Y = np.arange(12.0).reshape(6, 2), np.arange(6)


class Tensor:
    """What a tensor of PyTorch can do."""

    def __init__(self, array):
        self.array, self.shape = array, array.shape

    def __len__(self):
        return len(self.array)

    def __getitem__(self, index):
        return Tensor(self.array[index])

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.array


def rows(ds):
    ds.reset_state()
    return [[np.asarray(part).tolist() for part in point] for point in ds]


@pytest.mark.parametrize("arrays", [(X, Y), [X, Y], (Tensor(X), Tensor(Y))])
def test_a_point_is_a_row_of_each(arrays):
    ds = DataFromArrays(arrays, shuffle=False)
    assert len(ds) == 6
    assert rows(ds) == [[[2.0 * k, 2.0 * k + 1], k] for k in range(6)]


def test_one_array_gives_points_of_one_component():
    assert rows(DataFromArrays(X, shuffle=False)) == [[[2.0 * k, 2.0 * k + 1]] for k in range(6)]


def test_names_make_dicts():
    ds = DataFromArrays({"x": X, "y": Y}, shuffle=False)
    assert [(list(point), point["y"]) for point in ds] == [(["x", "y"], k) for k in range(6)]


def test_rows_stay_together_in_a_new_order_on_each_pass():
    ds = DataFromArrays((X, Y))
    first, second = rows(ds), [[np.asarray(part).tolist() for part in point] for point in ds]
    assert first != second
    assert sorted(first) == sorted(second) == rows(DataFromArrays((X, Y), shuffle=False))


def test_a_pass_goes_on_where_another_stopped():
    ds = DataFromArrays((X, Y))
    ds.reset_state()
    points = iter(ds)
    for _ in range(2):
        next(points)
    other = DataFromArrays((X, Y))
    other.reset_state()
    other.load_state_dict(ds.state_dict())
    assert [point[1] for point in other] == [point[1] for point in points]


def test_arrays_may_lie_in_files(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"], file["y"] = X, Y
        assert rows(DataFromArrays((file["x"], file["y"]), shuffle=False)) == rows(
            DataFromArrays((X, Y), shuffle=False)
        )


@pytest.mark.parametrize("arrays", [(), {}, [[1, 2], [3, 4]], "xy", 3, (X, 5), (X, np.float32(1))])
def test_what_has_no_rows_is_refused(arrays):
    with pytest.raises(WrongTypeError, match=r"expected an array, or a list or dict"):
        DataFromArrays(arrays)


def test_arrays_of_other_lengths_are_refused():
    with pytest.raises(ConfigError, match=r"of the shapes \(6, 2\), \(5,\): expected the"):
        DataFromArrays((X, Y[:5]))


def test_arrays_are_told_from_other_things():
    assert [is_array(value) for value in (X, Tensor(X), [1], np.float32(1), "a", {})] == [True, True, *[False] * 4]
