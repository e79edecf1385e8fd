"""Tar files of data points: what is written is read, as others write them, too; what is damaged is an error."""

import gzip
import io
import os
import tarfile
from pathlib import Path

import cv2
import numpy as np
import pytest

from tpack.dataflow.parallel.process_map import MultiProcessMapData
from tpack.dataflow.shard import shard_files
from tpack.dataflow.sources import DataFromList
from tpack.dataflow.storage.shards import shard_names
from tpack.dataflow.storage.tar import TarData, TarSerializer
from tpack.errors import ConfigError, DataPointError, InputError

IMAGE = np.random.default_rng(0).integers(0, 256, (5, 6, 3), np.uint8)
COUNT = 10


def points(count=COUNT):
    return [{"png": IMAGE + k, "cls": k, "json": {"k": [k]}} for k in range(count)]


def write(path, members):
    """Write a tar file as anybody would."""
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return str(path)


def read(flow):
    flow.reset_state()
    return list(flow)


@pytest.fixture
def shards(tmp_path):
    path = str(tmp_path / "train-{00..02}.tar")
    TarSerializer.save(DataFromList(points(), shuffle=False), path)
    return path


def first_of(shards):
    """Return the bytes of the first file, and what is in it."""
    name = shard_names(None, shards)[0]
    with tarfile.open(name) as tar:
        return bytearray(Path(name).read_bytes()), tar.getmembers()


def test_points_come_back(shards):
    found = read(TarSerializer.load(shards))
    assert [point["__key__"] for point in found] == [f"{k:09d}" for k in (0, 3, 6, 9, 1, 4, 7, 2, 5, 8)]
    for point in found:
        k = point["cls"]
        assert point["json"] == {"k": [k]}
        np.testing.assert_array_equal(point["png"], IMAGE + k)
    # Other readers of tar files read them.
    with tarfile.open(shard_names(None, shards)[0]) as tar:
        assert tar.getnames()[:3] == ["000000000.png", "000000000.cls", "000000000.json"]


def test_components_are_chosen_by_name(shards):
    found = read(TarData(shards, ("jpg;png", "cls")))
    assert sorted(point[1] for point in found) == list(range(COUNT))
    assert found[0][0].shape == IMAGE.shape
    with pytest.raises(DataPointError, match=r"'000000000' .*train-00\.tar has only png, cls, json"):
        read(TarData(shards, ("jpg;txt",)))


def test_files_of_others_are_read(tmp_path):
    jpg = bytes(cv2.imencode(".jpg", IMAGE)[1])
    array = io.BytesIO()
    np.save(array, np.arange(3))
    path = write(
        tmp_path / "a.tar",
        [
            ("__meta__.json", b"{}"),
            ("README", b"no point"),
            ("x/1.JPG", jpg),
            ("x/1.cls", b"7\n"),
            ("x/1.left.seg.npy", array.getvalue()),
            ("y/1.txt", "grün".encode()),
            ("y/1.bin", b"\x00"),
            ("y/1.empty", b""),
        ],
    )
    first, second = read(TarData(path))
    assert (first["__key__"], first["cls"], first["left.seg.npy"].tolist()) == ("x/1", 7, [0, 1, 2])
    np.testing.assert_array_equal(first["jpg"], cv2.imdecode(np.frombuffer(jpg, np.uint8), cv2.IMREAD_COLOR))
    assert second == {"__key__": "y/1", "txt": "grün", "bin": b"\x00", "empty": b""}
    assert read(TarData(path, ("bin;cls",), decoders={"bin": len, "cls": bytes.strip}))[1:] == [[1]]
    with gzip.open(tmp_path / "a.tar.gz", "wb") as packed, open(path, "rb") as plain:
        packed.write(plain.read())
    assert read(TarData(tmp_path / "a.tar.gz", ("cls;txt",))) == [[7], ["grün"]]


def test_files_are_shuffled_and_dealt_out_to_workers(shards):
    orders = [[point[0] for point in read(TarData(shards, ("cls",), shuffle=True))] for _ in range(12)]
    assert {tuple(sorted(order)) for order in orders} == {tuple(range(COUNT))}
    assert len(set(map(tuple, orders))) > 1
    files = shard_names(None, shards)
    parts = [
        [point[0] for point in read(TarData(shard_files(files, rank, 2, remainder="keep", shuffle=False), ("cls",)))]
        for rank in (0, 1)
    ]
    assert parts == [[0, 3, 6, 9, 2, 5, 8], [1, 4, 7]]


def test_a_pass_goes_on_in_the_middle_of_a_file(shards):
    flow = TarData(shards, ("cls",), shuffle=True)
    flow.reset_state()
    passing = iter(flow)
    taken = [next(passing)[0] for _ in range(5)]
    other = TarData(shards, ("cls",), shuffle=True)
    other.reset_state()
    other.load_state_dict(flow.state_dict())
    rest = [point[0] for point in other]
    assert rest == [point[0] for point in passing]
    assert sorted(taken + rest) == list(range(COUNT))


def test_reading_in_threads_and_processes_is_that_of_other_flows(shards):
    flow = MultiProcessMapData(TarData(shards, ("cls",)), 1, list, strict=True)
    flow.reset_state()
    try:
        assert sorted(point[0] for point in flow) == list(range(COUNT))
    finally:
        flow.close()


def test_a_file_that_was_cut_off_anywhere_is_an_error_that_says_after_what(tmp_path, shards):
    whole, members = first_of(shards)
    path = tmp_path / "cut.tar"
    size = members[-1].offset_data + 512
    for length in {0, 1, 511, 512, 513, 700, 1024, size - 513, size - 1, size, size + 100, *range(600, size, 487)}:
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"cut.tar (is damaged|was cut off)"):
            read(TarData(path))
    path.write_bytes(whole[: size + 512])
    assert len(read(TarData(path))) == 4


def test_damaged_headers_and_components_are_errors(tmp_path, shards):
    whole, members = first_of(shards)
    path = tmp_path / "damaged.tar"
    for member in (members[0], members[4], members[-1]):
        damaged = whole[:]
        damaged[member.offset + 3] ^= 255
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"damaged.tar (is damaged|is damaged or was cut off) after"):
            read(TarData(path))
    damaged = whole[:]
    damaged[members[0].offset_data : members[0].offset_data + 8] = bytes(8)
    path.write_bytes(damaged)
    with pytest.raises(
        InputError, match=r"000000000\.png .*damaged\.tar cannot be decoded: its 163 bytes are not an image"
    ):
        read(TarData(path))
    packed = gzip.compress(bytes(whole))
    (tmp_path / "cut.tar.gz").write_bytes(packed[: len(packed) // 2])
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 255
    (tmp_path / "flipped.tar.gz").write_bytes(flipped)
    for name in ("cut", "flipped"):
        with pytest.raises(InputError, match=f"{name}.tar.gz is damaged or was cut off"):
            read(TarData(tmp_path / f"{name}.tar.gz"))
    with pytest.raises(InputError, match=r"twice.tar has the file 'a.cls' twice"):
        read(TarData(write(tmp_path / "twice.tar", [("a.cls", b"1"), ("a.cls", b"2")])))
    objects = io.BytesIO()
    np.save(objects, np.array([{}]), allow_pickle=True)
    with pytest.raises(InputError, match="a.npy in .*objects.tar cannot be decoded: Object arrays cannot be loaded"):
        read(TarData(write(tmp_path / "objects.tar", [("a.npy", objects.getvalue())])))


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ([1], "data point 0 is a list: expected a dict such as"),
        ({"cls": "x"}, "data point 0 has cls='x', which cannot be written"),
        (
            {"png": np.zeros(3)},
            r"an array of shape \(3,\) and dtype float64: expected bytes, or a name that ends in cls, txt, json, npy",
        ),
        ({"png": np.zeros((0, 3), np.uint8)}, "cannot be written: an array of shape"),
        ({"json": object()}, "cannot be written: Object of"),
        ({"npy": [object()]}, "has npy=a list of 1, which cannot be written"),
        ({"__key__": "a.b", "cls": 1}, r"has the __key__ 'a\.b': expected a name without a dot"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_stays(tmp_path, point, message):
    with pytest.raises(DataPointError, match=message):
        TarSerializer.save(DataFromList([point]), tmp_path / "x.tar")
    assert not list(tmp_path.iterdir())


def test_arguments_that_cannot_be_are_refused(shards):
    with pytest.raises(ConfigError, match="TarData got shuffle=True and a flow of names: shuffle in that flow"):
        TarData(DataFromList([["a"]]), shuffle=True)
    for components in ("jpg", []):
        with pytest.raises(ConfigError, match=r"TarData got components( with 0 entries|=.*): expected "):
            TarData(shards, components)


def write_member(path, name, data=b"1", mode="w", **attributes):
    with tarfile.open(path, mode) as tar:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        for attribute, value in attributes.items():
            setattr(member, attribute, value)
        tar.addfile(member, io.BytesIO(data))


def read_all(path, **options):
    flow = TarData(path, **options)
    flow.reset_state()
    return list(flow)


@pytest.mark.parametrize("name", ["../x.cls", "/x.cls", "a/../../x.cls", "C:/x.cls", "a\\x.cls"])
def test_name_that_leads_out_of_a_directory_is_refused(tmp_path, name):
    path = str(tmp_path / "a.tar")
    write_member(path, name)
    with pytest.raises(InputError, match=r"a\.tar got name="):
        read_all(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_link_is_refused(tmp_path, kind):
    path = str(tmp_path / "a.tar")
    write_member(path, "x.cls", b"", type=kind, linkname="/etc/passwd")
    with pytest.raises(InputError, match=r"a\.tar has the link 'x\.cls' to '/etc/passwd': expected files"):
        read_all(path)


def test_names_as_tar_writes_them_for_a_directory_are_read(tmp_path):
    path = str(tmp_path / "a.tar")
    with tarfile.open(path, "w") as tar:
        directory = tarfile.TarInfo("./")
        directory.type = tarfile.DIRTYPE
        tar.addfile(directory)
        member = tarfile.TarInfo("./x.cls")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"7"))
    assert read_all(path, components=["cls"]) == [[7]]


def test_member_that_is_too_large_is_refused_unless_the_limit_is_raised(tmp_path):
    path = str(tmp_path / "a.tar.gz")
    write_member(path, "x.bin", bytes(1 << 20), "w:gz")
    assert os.path.getsize(path) < 1 << 12
    message = "'x.bin' in .* has 1048576 bytes: expected at most 1000; use max_bytes=1048576"
    with pytest.raises(InputError, match=message):
        read_all(path, max_bytes=1000)
    assert [len(data) for (data,) in read_all(path, components=["bin"], max_bytes=1 << 20)] == [1 << 20]


def test_long_name_that_is_too_long_is_refused(tmp_path):
    path = str(tmp_path / "a.tar.gz")
    write_member(path, "x" * (1 << 21), mode="w:gz")
    with pytest.raises(InputError, match="a header has 2097.* bytes: expected at most 1048576"):
        read_all(path)
