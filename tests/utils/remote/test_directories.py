import os
from pathlib import Path

import pytest

from tests.helpers.faulty_storage import FaultyStorage, faulty_storage, unreachable
from tpack.errors import ConfigError, RemoteError
from tpack.utils.dir_lock import DirectoryClaim
from tpack.utils.remote import directories
from tpack.utils.remote import store as store_module
from tpack.utils.remote.directories import (
    check_directories,
    fetch_checkpoint,
    finish_directories,
    local_path,
    open_directory,
)
from tpack.utils.remote.store import Store

URL = "faulty://bucket/run"
DATA, INDEX = "model-8.data-00000-of-00001", "model-8.index"
EVENTS = "events.out.tfevents.1"


@pytest.fixture(autouse=True)
def storage(monkeypatch, tmp_path):
    monkeypatch.setattr(store_module, "WAITS_SECS", (0.0, 0.0))
    monkeypatch.setenv("TPACK_REMOTE_CACHE", str(tmp_path / "cache"))
    with faulty_storage() as found:
        yield found
        found.faults.clear()
        directories._known.close()


def fill(url, *names):
    store = Store(url)
    for name in names:
        store.put_bytes(name.encode(), name)
    return store


def names_in(path):
    return {name for name in os.listdir(path) if not name.startswith(".")}


def test_a_run_goes_on_with_what_is_there_and_fetches_data_when_they_are_read():
    store = fill(URL, INDEX, DATA, EVENTS, "stats.json", "model-9.data-00000-of-00001")
    directory = open_directory(URL)
    assert names_in(directory.path) == {INDEX, "stats.json"}
    assert len({os.stat(os.path.join(directory.path, name)).st_mtime_ns for name in (INDEX, "stats.json")}) == 1
    # What a killed run left of a checkpoint is removed.
    assert "model-9.data-00000-of-00001" not in store.sizes()
    fetch_checkpoint(os.path.join(directory.path, "model-8"))
    assert names_in(directory.path) == {INDEX, "stats.json", DATA}
    open(os.path.join(directory.path, "new"), "w").close()
    finish_directories()
    check_directories()
    assert store.sizes().keys() == {".tpack.run.json", INDEX, DATA, EVENTS, "stats.json", "new"}
    path = directory.path
    directory.close()
    assert ".tpack.run.json" not in store.sizes()
    assert not os.path.exists(path)


def test_a_directory_is_open_until_all_who_write_there_have_closed_it():
    first, second = open_directory(URL), open_directory(URL + "/", "q")
    assert first is second
    first.close()
    open(os.path.join(first.path, "late"), "w").close()
    second.close()
    assert Store(URL).sizes().keys() == {"late"}


@pytest.mark.parametrize(
    ("action", "here", "elsewhere"), [("b", set(), {"stats.json", EVENTS}), ("d", set(), set()), ("n", None, None)]
)
def test_content_is_moved_deleted_or_left_alone(action, here, elsewhere):
    store = fill(URL, "stats.json", EVENTS)
    directory = open_directory(URL, action)
    assert names_in(directory.path) == set()
    if action == "n":
        assert directory.url.startswith(URL + "-2")
        assert store.sizes().keys() == {"stats.json", EVENTS}
    else:
        assert store.sizes().keys() - {".tpack.run.json"} == here
        moved = {name.partition("/")[2] for name in Store("faulty://bucket").sizes() if name.startswith("run-")}
        assert moved == elsewhere


def test_content_can_be_refused_and_what_fails_leaves_nothing_behind(storage, tmp_path):
    fill(URL, "stats.json")
    with pytest.raises(ConfigError, match="bucket/run exists and is not empty, and action='q' forbids using it"):
        open_directory(URL, "q")
    storage.faults.extend([lambda *_: None, *[unreachable] * 3])
    with pytest.raises(RemoteError, match="cannot fetch faulty://bucket/run/stats.json"):
        open_directory(URL)
    assert os.listdir(tmp_path / "cache") == []


def test_what_an_earlier_run_could_not_send_is_moved_aside():
    directory = open_directory(URL)
    path = directory.path
    # As it is left by one that was killed.
    directory._mirror._stopped.set()
    directory._claim.release()
    directories._known.writing.clear()
    for content in ("first", "second"):
        with open(os.path.join(path, "unsent"), "w") as file:
            file.write(content)
        directory = open_directory(URL)
        assert names_in(path) == set()
        with open(os.path.join(f"{path}.unsent", "unsent")) as file:
            assert file.read() == content
        directory._mirror._stopped.set()
        directory._claim.release()
        directories._known.writing.clear()


def test_two_processes_of_a_machine_cannot_have_the_same(tmp_path, monkeypatch):
    directory = open_directory(URL)
    with DirectoryClaim(directory.path):
        directories._known.writing.clear()
        monkeypatch.setattr(directories, "check_not_claimed", refuse)
        with pytest.raises(ConfigError, match="in use"):
            open_directory(URL)
    directories._known.writing[URL] = directory


def refuse(path):
    raise ConfigError(f"{path} is in use")


def test_checkpoints_elsewhere_are_fetched_to_be_read():
    fill(URL, INDEX, DATA, "checkpoint", "model-80.index", "values.npz")
    assert local_path("train_log/run") == "train_log/run"
    assert names_in(local_path(URL)) == {INDEX, "checkpoint", "model-80.index", "values.npz"}
    assert names_in(local_path(URL + "/checkpoint")) == {INDEX, "checkpoint", "model-80.index", "values.npz"}
    for url in (f"{URL}/model-8", f"{URL}/{INDEX}"):
        prefix = local_path(url)
        assert names_in(os.path.dirname(prefix)) == {INDEX}
        fetch_checkpoint(prefix.removesuffix(".index"))
        assert names_in(os.path.dirname(prefix)) == {INDEX, DATA}
    assert os.path.isfile(local_path(f"{URL}/values.npz"))
    with pytest.raises(RemoteError, match="there is nothing at faulty://bucket/run/model-9"):
        local_path(f"{URL}/model-9")
    directory = open_directory(URL)
    assert local_path(URL) == os.path.join(directory.path, "")
    assert local_path(f"{URL}/model-8") == os.path.join(directory.path, "model-8")


def test_what_cannot_be_sent_at_the_end_of_the_process_is_said_and_stays(storage, capsys):
    directory = open_directory(URL)
    open(os.path.join(directory.path, "late"), "w").close()
    storage.faults.extend([unreachable] * 3)
    directories._known.close()
    assert names_in(directory.path) == {"late"}
    with DirectoryClaim(directory.path):
        pass


@pytest.mark.parametrize("name", ["../../x", "a/../../x", "a//b", "C:/x"])
def test_object_whose_name_leads_elsewhere_is_refused_and_nothing_is_written(tmp_path, name):
    fill(URL, "stats.json", name)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RemoteError, match="faulty://bucket/run got name=.*: expected a relative name below it"):
        open_directory(URL)
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in before and path.is_file()] == []


@pytest.mark.parametrize("path", ["/bucket/run/../../x", "/bucket/other/x"])
def test_listing_that_leads_elsewhere_is_refused_where_a_checkpoint_is_read(tmp_path, monkeypatch, path):
    fill(URL, INDEX)
    listing = {path: {"size": None}, f"/bucket/run/{INDEX}": {"size": None}}
    monkeypatch.setattr(FaultyStorage, "find", lambda *_, **options: listing)
    with pytest.raises(RemoteError, match=r"faulty://bucket/run (got name='../../x'|has the object /bucket/other/x)"):
        local_path(URL)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_objects_whose_sizes_the_storage_does_not_tell_are_fetched(monkeypatch):
    fill(URL, INDEX, DATA)
    listing = {f"/bucket/run/{name}": {"size": None} for name in (INDEX, DATA)}
    monkeypatch.setattr(FaultyStorage, "find", lambda *_, **options: listing)
    path = local_path(URL)
    fetch_checkpoint(os.path.join(path, "model-8"))
    assert [Path(path, name).read_text() for name in (INDEX, DATA)] == [INDEX, DATA]
