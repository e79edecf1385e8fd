import importlib

import pytest

from tests.helpers.faulty_storage import Hanging, faulty_storage, half, unreachable
from tpack.errors import ConfigError, DependencyError, RemoteError
from tpack.utils.remote import store as store_module
from tpack.utils.remote.store import Store


@pytest.fixture
def storage(monkeypatch):
    monkeypatch.setattr(store_module, "WAITS_SECS", (0.0, 0.0))
    with faulty_storage() as found:
        yield found


def test_objects_are_put_listed_fetched_moved_and_removed(storage, tmp_path):
    store, other = Store("faulty://bucket/run/"), Store("faulty://bucket/other")
    (tmp_path / "file").write_bytes(b"12345")
    assert store.url == "faulty://bucket/run"
    assert store.sizes() == {}
    store.put_file(str(tmp_path / "file"), "a/b")
    store.put_bytes(b"xy", "c")
    assert store.sizes() == {"a/b": 5, "c": 2}
    assert store.sizes(max_depth=1) == {"c": 2}
    assert (store.read_bytes("c"), store.read_bytes("nothing")) == (b"xy", None)
    store.get("a/b", str(tmp_path / "new" / "copy"), 5)
    assert (tmp_path / "new" / "copy").read_bytes() == b"12345"
    store.move_to(other, ["a/b"])
    store.remove("c")
    store.remove("nothing")
    assert (store.sizes(), other.sizes()) == ({}, {"a/b": 5})


def test_what_fails_is_tried_again_and_half_an_object_is_no_object(storage, tmp_path):
    store = Store("faulty://bucket/run")
    storage.faults.extend([unreachable, half, lambda *_: None])
    store.put_bytes(b"whole content", "object")
    assert store.read_bytes("object") == b"whole content"
    storage.faults.extend([half, unreachable])
    store.get("object", str(tmp_path / "file"), 13)
    assert (tmp_path / "file").read_bytes() == b"whole content"


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda store, path: store.sizes(), "cannot list faulty://bucket/run: OSError: 503"),
        (lambda store, path: store.put_bytes(b"x", "name"), "cannot write faulty://bucket/run/name: OSError: 503"),
        (lambda store, path: store.get("object", path, 2), "cannot fetch faulty://bucket/run/object: OSError: 503"),
        (lambda store, path: store.remove("object"), "cannot remove faulty://bucket/run/object: OSError: 503"),
    ],
)
def test_what_fails_too_often_is_an_error_that_names_it(storage, tmp_path, operation, message):
    store = Store("faulty://bucket/run")
    store.put_bytes(b"xy", "object")
    storage.faults.extend([unreachable] * 3)
    with pytest.raises(RemoteError, match=message):
        operation(store, str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []


def test_half_an_object_that_stays_and_one_that_is_gone_are_errors_and_leave_no_file(storage, tmp_path):
    store = Store("faulty://bucket/run")
    store.put_bytes(b"xy", "object")
    with pytest.raises(RemoteError, match="cannot fetch .*/object: OSError: 2 of 3 bytes came"):
        store.get("object", str(tmp_path / "file"), 3)
    with pytest.raises(RemoteError, match="run/nothing cannot be fetched: it is not there any more"):
        store.get("nothing", str(tmp_path / "file"), 3)
    storage.faults.extend([half] * 3)
    with pytest.raises(RemoteError, match="cannot write .*/object: OSError: 4 of 5 bytes arrived"):
        store.put_bytes(b"12345", "object")
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_end_is_left_and_nothing_follows_before_it_has_ended(storage, monkeypatch):
    monkeypatch.setattr(store_module, "LIMIT_SECS", 0.05)
    store, hanging = Store("faulty://bucket/run"), Hanging()
    storage.faults.append(hanging)
    with pytest.raises(RemoteError, match="TimeoutError: an operation before it has not ended yet"):
        store.put_bytes(b"first", "object")
    with pytest.raises(RemoteError, match="not ended yet"):
        store.put_bytes(b"second", "object")
    hanging.released.set()
    monkeypatch.setattr(store_module, "LIMIT_SECS", 60.0)
    store.put_bytes(b"third", "object")
    assert store.read_bytes("object") == b"third"
    # The first one ended, late, and before the third.
    assert storage.log == [("put", "object"), ("put", "object")]


def test_denied_is_not_asked_again(storage):
    asked = []

    def deny(operation, path):
        asked.append(path)
        raise PermissionError("no")

    storage.faults.extend([deny] * 3)
    with pytest.raises(RemoteError, match="PermissionError: no"):
        Store("faulty://bucket/run").put_bytes(b"", "object")
    assert len(asked) == 1


def test_urls_that_cannot_be_used_are_errors_that_say_why(monkeypatch):
    with pytest.raises(ConfigError, match="'nope://x' cannot be used: Protocol not known: nope; expected a URL"):
        Store("nope://x")
    import_module = importlib.import_module

    def without(name, *others):
        if name in ("fsspec", "s3fs"):
            raise ImportError(f"No module named {name!r}")
        return import_module(name, *others)

    with monkeypatch.context() as patch:
        patch.setattr(importlib, "import_module", without)
        with pytest.raises(DependencyError, match=r"'fsspec', .*pip install 'tpack\[remote\]'"):
            Store("s3://bucket/run")


def test_a_package_that_serves_such_urls_and_is_not_there_is_named(monkeypatch):
    def missing(url):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(DependencyError, match="s3://bucket/run needs a package .*: Install s3fs to access S3"):
        Store("s3://bucket/run")
