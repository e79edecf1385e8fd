"""Data points from SVMLight files."""

import numpy as np
import pytest

from tests.helpers.stored_points import assert_same, read_all
from tpack.dataflow.storage.svmlight import SVMLightData
from tpack.errors import InputError

TEXT = "1 1:0.5 3:2 # a comment\n-1 2:1.5\n1\n"
WANTED = [[np.array([0.5, 0, 2]), np.float64(1)], [np.array([0, 1.5, 0]), np.float64(-1)], [np.zeros(3), np.float64(1)]]


def test_features_and_labels_come_back(tmp_path):
    (tmp_path / "a.svm").write_text(TEXT)
    ds = SVMLightData(str(tmp_path / "a.svm"), shuffle=False)
    assert len(ds) == 3
    assert_same(read_all(ds), WANTED)
    assert len(read_all(SVMLightData(tmp_path / "a.svm"))) == 3


@pytest.mark.parametrize(("name", "message"), [("a.svm", "could not convert"), ("none.svm", "No such file")])
def test_what_cannot_be_read_is_named(tmp_path, name, message):
    (tmp_path / "a.svm").write_text("no numbers here\n")
    with pytest.raises(InputError, match=rf"the SVMLight file .*{name} cannot be read: .*{message}"):
        SVMLightData(tmp_path / name)
