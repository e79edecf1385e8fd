"""Files of MATLAB."""

import sys

import numpy as np
import pytest
import scipy.io

from tpack.dataflow.dataset.files import load_mat
from tpack.errors import DependencyError, InputError


@pytest.mark.parametrize("compressed", [True, False])
def test_variables_come_back_in_order(compressed, tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"x": np.eye(2), "y": np.zeros((1, 3)), "z": 1}, do_compression=compressed)
    y, x = load_mat(str(tmp_path / "a.mat"), "y", "x")
    assert (y.shape, x.tolist()) == ((1, 3), [[1, 0], [0, 1]])


def test_missing_variable_is_named(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"x": 1})
    with pytest.raises(InputError, match=r"a\.mat has no variable y, z: it is damaged or another file"):
        load_mat(str(tmp_path / "a.mat"), "x", "y", "z")


def test_damaged_file_is_refused(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"x": np.arange(1000)})
    content = (tmp_path / "a.mat").read_bytes()
    for damaged in (b"", b"no matlab", content[:500]):
        (tmp_path / "a.mat").write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.mat (is no MATLAB file|has no variable)"):
            load_mat(str(tmp_path / "a.mat"), "x")


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(DependencyError, match=r"'scipy\.io'.*tpack\[examples\]"):
        load_mat("a.mat", "x")
