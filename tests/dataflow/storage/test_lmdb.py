"""The entries of LMDB files as data points."""

import pickle

import lmdb
import msgpack
import pytest

from tpack.dataflow.storage.lmdb import LMDBData, LMDBDataDecoder
from tpack.errors import ConfigError, InputError

ENTRIES = {b"%03d" % k: b"value %d" % k for k in range(9)}


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "some.lmdb", ENTRIES)


def write(path, entries):
    env = lmdb.open(str(path), subdir=False, lock=False)
    with env.begin(write=True) as transaction:
        for key, value in entries.items():
            transaction.put(key, value)
    env.close()
    return str(path)


def ready(*args, **kwargs):
    ds = LMDBData(*args, **kwargs)
    ds.reset_state()
    return ds


def test_entries_come_in_order_or_shuffled(path):
    wanted = [[key, value] for key, value in ENTRIES.items()]
    assert list(ready(path, shuffle=False)) == wanted
    ds = ready(path)
    passes = [list(ds) for _ in range(3)]
    assert all(sorted(points) == wanted for points in passes)
    assert passes[0] != passes[1] or passes[1] != passes[2]
    assert len(ds) == 9


@pytest.mark.parametrize("keys", ["{:0>3d}", [f"{k:03d}" for k in range(9)], list(ENTRIES)])
def test_keys_can_be_given(path, keys):
    ds = ready(path, keys=keys)
    assert dict(list(ds)) == ENTRIES


def test_part_of_the_keys_is_a_part_of_the_data(path):
    ds = ready(path, keys=["003", "005"])
    assert len(ds) == 2
    assert sorted(key for key, _ in ds) == [b"003", b"005"]


def test_keys_that_tensorpack_stored_are_used(tmp_path):
    path = write(tmp_path / "a.lmdb", {**ENTRIES, b"__keys__": msgpack.packb([b"001", b"002"])})
    assert sorted(key for key, _ in ready(path)) == [b"001", b"002"]
    assert len(list(ready(path, shuffle=False))) == 9


def test_two_flows_and_two_passes_read_one_file(path):
    first, second = ready(path, shuffle=False), ready(path, shuffle=False)
    triples = list(zip(first, first, second, strict=True))
    assert all(one == other == third for one, other, third in triples)


def test_pickled_flow_opens_the_file_itself(path):
    copy = pickle.loads(pickle.dumps(ready(path)))
    copy.reset_state()
    assert dict(list(copy)) == ENTRIES


def test_flow_wants_to_be_reset(path):
    with pytest.raises(InputError, match=r"call reset_state\(\) once"):
        list(LMDBData(path, shuffle=False))


def test_missing_key_is_named(path):
    with pytest.raises(InputError, match="has no entry b'xyz'"):
        list(ready(path, keys=["xyz"]))


def test_keys_without_shuffling_are_refused(path):
    with pytest.raises(ConfigError, match="got keys and shuffle=False"):
        LMDBData(path, shuffle=False, keys=["001"])
    with pytest.raises(ConfigError, match=r"got keys\[0\]=1: expected text or bytes"):
        LMDBData(path, keys=[1, 2])


def test_decoder_gets_key_and_value_and_may_drop(path):
    ds = LMDBDataDecoder(LMDBData(path, shuffle=False), lambda key, value: None if key == b"000" else [key, len(value)])
    ds.reset_state()
    assert list(ds) == [[key, 7] for key in list(ENTRIES)[1:]]
    with pytest.raises(ConfigError, match="got decoder=3: expected a function"):
        LMDBDataDecoder(LMDBData(path), 3)
