"""Checkpoints read without TensorFlow, against what TensorFlow reads, whole and damaged."""

import os
import shutil
from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import save_checkpoint
from tpack.errors import CheckpointError
from tpack.tfutils.varmanip import load_checkpoint_vars
from tpack.utils.formats import tensor_bundle
from tpack.utils.formats.sstable import NotReadError
from tpack.utils.formats.tensor_bundle import read_bundle

DTYPES = ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint16", "bool", "complex64"]
FEW = {"w": np.arange(6.0, dtype="float32").reshape(2, 3), "b": np.array(3, "int64")}


def values_of_all_kinds(rng):
    """Return values in names that share long beginnings, enough of them for more than one block."""
    values = {f"layer/{dtype}": rng.integers(0, 2, [3, 2]).astype(dtype) for dtype in DTYPES}
    for name in ("bfloat16", "float8_e5m2", "float8_e4m3fn"):
        values[f"layer/{name}"] = rng.normal(size=7).astype(getattr(ml_dtypes, name))
    values |= {"scalar": np.array(2.5, "float32"), "empty": np.zeros([0, 4], "float32"), "big": rng.normal(size=70000)}
    return values


def test_values_are_those_that_tensorflow_reads(tmp_path, rng):
    prefix = save_checkpoint(tmp_path, values_of_all_kinds(rng))
    found, expected = read_bundle(prefix), load_checkpoint_vars(prefix)
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        assert found[name].tobytes() == value.tobytes()


def test_an_index_of_many_blocks_and_several_files_of_data(tmp_path, rng):
    names = [f"{rng.bytes(2000).hex()}/{index}" for index in range(200)]
    written = []
    with tf.Graph().as_default(), tf.Session() as session:
        for part, own in enumerate((names[::2], names[1::2])):
            values = [np.float32(int(name.rpartition("/")[2])) for name in own]
            written.append(str(tmp_path / f"part{part}"))
            whole = [""] * len(own)
            session.run(
                tf.raw_ops.SaveV2(prefix=written[part], tensor_names=own, shape_and_slices=whole, tensors=values)
            )
        merged = str(tmp_path / "whole")
        session.run(tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=written, destination_prefix=merged))
    found = read_bundle(str(tmp_path / "whole"))
    assert list(found) == sorted(names)
    assert all(value == int(name.rpartition("/")[2]) for name, value in found.items())
    assert len([name for name in os.listdir(tmp_path) if name.startswith("whole.data")]) == 2


@pytest.mark.parametrize("which", ["index", "data-00000-of-00001"])
def test_every_damaged_byte_is_an_error(tmp_path, which):
    prefix = save_checkpoint(tmp_path, FEW)
    path = f"{prefix}.{which}"
    with open(path, "rb") as file:
        whole = file.read()
    for place in range(len(whole)):
        for bit in (0, 7):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            _write(path, damaged)
            if which == "index" and len(whole) - 46 < place < len(whole) - 8:
                # Here the footer is filled up, which means nothing; the byte before it may say that a number goes on.
                _assert_few_or_error(prefix)
                continue
            with pytest.raises((CheckpointError, NotReadError)):
                read_bundle(prefix)
    for size in range(len(whole)):
        _write(path, whole[:size])
        with pytest.raises(CheckpointError, match="is damaged: its (index|data)"):
            read_bundle(prefix)
    _write(path, whole)
    np.testing.assert_array_equal(read_bundle(prefix)["w"], FEW["w"])


def _assert_few_or_error(prefix):
    with suppress(CheckpointError):
        for name, value in read_bundle(prefix).items():
            np.testing.assert_array_equal(value, FEW[name])


def _write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(CheckpointError, match="there is no checkpoint .*nothing"):
        read_bundle(str(tmp_path / "nothing"))
    prefix = save_checkpoint(tmp_path, FEW)
    os.remove(f"{prefix}.data-00000-of-00001")
    with pytest.raises(CheckpointError, match=r"its file model-1.data-00000-of-00001 cannot be read"):
        read_bundle(prefix)


def test_what_only_tensorflow_reads_is_left_to_it(tmp_path):
    strings = save_checkpoint(tmp_path, {"text": np.array([b"a", b"bc"], object)})
    with pytest.raises(NotReadError, match="values of the type 7"):
        read_bundle(strings)
    (tmp_path / "parts").mkdir()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("w", [4, 2], partitioner=tf.fixed_size_partitioner(2), use_resource=False)
        session.run(tf.global_variables_initializer())
        parts = tf.train.Saver().save(session, str(tmp_path / "parts" / "model"))
    with pytest.raises(NotReadError, match="a key is no name|a variable is in parts"):
        read_bundle(parts)


def entries_of(value, key=b"w", header=b"\x08\x01\x1a\x02\x08\x01"):
    return lambda data: iter([(b"", header), (key, value)])


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (lambda data: iter(()), CheckpointError, "it has no header"),
        (lambda data: iter([(b"w", b"")]), CheckpointError, "it has no header"),
        (entries_of(b"", header=b"\x10\x01"), NotReadError, "begin with their highest byte"),
        (entries_of(b"\x08\x01\x12\x00\x28\x04", header=b"\x08\x00"), CheckpointError, "not among the 0"),
        (entries_of(b"\x08\x01\x12\x00\x28\x05"), CheckpointError, "was to have the shape"),
        (entries_of(b"\x0c"), CheckpointError, "a field has the unknown kind 4"),
        (entries_of(b"\x08" + b"\xff" * 10), CheckpointError, "a number is longer than 64 bits"),
        (entries_of(b"\x12\x7f"), CheckpointError, "127 bytes were to follow"),
        (entries_of(b"\x08\x01", key=b"\xff"), NotReadError, "a key is no name"),
        (entries_of(b"\x08\x01\x12\x0d\x12\x0b\x08" + b"\xff" * 9 + b"\x01"), NotReadError, "of unknown size"),
    ],
)
def test_messages_that_make_no_sense_are_errors(tmp_path, monkeypatch, table, error, message):
    prefix = save_checkpoint(tmp_path, FEW)
    monkeypatch.setattr(tensor_bundle, "read_table", table)
    with pytest.raises(error, match=message):
        read_bundle(prefix)


def test_a_copy_elsewhere_is_read(tmp_path):
    prefix = save_checkpoint(tmp_path, FEW)
    for end in ("index", "data-00000-of-00001"):
        shutil.copy(f"{prefix}.{end}", tmp_path / f"other.{end}")
    np.testing.assert_array_equal(read_bundle(str(tmp_path / "other"))["w"], FEW["w"])


def test_number_of_files_costs_nothing(tmp_path, monkeypatch):
    prefix = save_checkpoint(tmp_path, FEW)
    header = b"\x08" + b"\xff" * 8 + b"\x01\x1a\x02\x08\x01"
    monkeypatch.setattr(tensor_bundle, "read_table", entries_of(b"\x08\x01\x12\x00\x28\x04", header=header))
    with pytest.raises(CheckpointError, match="its file model-1.data-00000-of-144115188075855871 cannot be read"):
        read_bundle(prefix)


def test_values_that_overlap_are_refused(tmp_path, monkeypatch):
    prefix = save_checkpoint(tmp_path, FEW)
    table = [(b"", b"\x08\x01\x1a\x02\x08\x01"), *((key, b"\x08\x01\x12\x00\x28\x04") for key in (b"a", b"b"))]
    monkeypatch.setattr(tensor_bundle, "read_table", lambda data: iter(table))
    with pytest.raises(CheckpointError, match="the data of a and b overlap"):
        read_bundle(prefix)
