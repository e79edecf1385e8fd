"""The files of MNIST."""

import gzip

import numpy as np
import pytest

from tests.helpers.dataset_files import idx_bytes
from tpack.dataflow.dataset.mnist import read_idx
from tpack.errors import InputError

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_array_comes_back(tmp_path, name):
    content = idx_bytes(ARRAY)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    np.testing.assert_array_equal(read_idx(str(tmp_path / name), 3), ARRAY)


def test_header_is_the_published_one():
    assert idx_bytes(np.zeros((60000, 28, 28), np.uint8))[:16].hex() == "000008030000ea600000001c0000001c"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with '': wanted an idx file of bytes in 3 dimensions"),
        (idx_bytes(ARRAY)[:15], "begins with '00 00 08 03'"),
        (idx_bytes(ARRAY[0]), "begins with '00 00 08 02'"),
        (b"\x00\x00\x0d\x03" + idx_bytes(ARRAY)[4:], "begins with '00 00 0d 03'"),
        (idx_bytes(ARRAY)[:-1], r"holds 23 bytes after its header: wanted 24 for shape \[2, 3, 4\]"),
        (idx_bytes(ARRAY) + b"\x00", "holds 25 bytes after its header"),
        (b"\x00\x00\x08\x03" + b"\xff" * 12, "holds 0 bytes after its header: wanted 79228162458924105385300197375"),
    ],
)
def test_other_content_is_refused(tmp_path, content, message):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=f"a {message}"):
        read_idx(str(tmp_path / "a"), 3)
