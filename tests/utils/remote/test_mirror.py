import os

import pytest

from tests.helpers.faulty_storage import faulty_storage, half, unreachable
from tpack.errors import RemoteError
from tpack.utils.remote import mirror as mirror_module
from tpack.utils.remote import store as store_module
from tpack.utils.remote.mirror import Mirror, described_owner
from tpack.utils.remote.store import Store

URL = "faulty://bucket/run"
DATA, INDEX, STATE = "model-8.data-00000-of-00001", "model-8.index", "model-8.train_state.json"


@pytest.fixture
def storage(monkeypatch):
    monkeypatch.setattr(store_module, "WAITS_SECS", (0.0, 0.0))
    # The thread looks when a test says so.
    monkeypatch.setattr(mirror_module, "PERIOD_SECS", 3600.0)
    with faulty_storage() as found:
        yield found


@pytest.fixture
def mirror(storage, tmp_path):
    found = Mirror(Store(URL), str(tmp_path), {}, ())
    storage.log.clear()
    yield found
    found._stopped.set()


def write(directory, *names, content="content"):
    for name in names:
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(content)


def test_a_checkpoint_is_sent_in_the_order_in_which_half_of_it_is_none(mirror, storage, tmp_path):
    write(tmp_path, "checkpoint", INDEX, DATA, STATE, "min-cost.best.json", "stats.json", ".tpack.lock", "sub/image")
    mirror.finish()
    assert [name for _, name in storage.log] == [
        "stats.json",
        "image",
        DATA,
        STATE,
        INDEX,
        "min-cost.best.json",
        "checkpoint",
    ]
    storage.log.clear()
    mirror.finish()
    assert storage.log == []


def test_what_is_replaced_loses_its_index_first_and_what_vanishes_is_removed_index_first(mirror, storage, tmp_path):
    write(tmp_path, INDEX, DATA, "checkpoint", "stats.json")
    mirror.finish()
    storage.log.clear()
    write(tmp_path, DATA, content="other")
    mirror.finish()
    assert storage.log == [("remove", INDEX), ("put", DATA), ("put", INDEX)]
    storage.log.clear()
    for name in (DATA, INDEX, "stats.json"):
        os.remove(tmp_path / name)
    mirror.finish()
    assert storage.log == [("remove", INDEX), ("remove", DATA)]
    assert "stats.json" in mirror.store.sizes()


def test_data_that_were_never_here_go_with_their_index(storage, tmp_path):
    store = Store(URL)
    for name in (INDEX, DATA, "checkpoint"):
        store.put_bytes(b"there", name)
    write(tmp_path, INDEX, "checkpoint", content="there")
    mirror = Mirror(store, str(tmp_path), store.sizes(), [INDEX, "checkpoint"])
    storage.log.clear()
    mirror.finish()
    assert storage.log == []
    os.remove(tmp_path / INDEX)
    mirror.close()
    assert storage.log[:2] == [("remove", INDEX), ("remove", DATA)]
    assert store.sizes() == {"checkpoint": 5}


def test_a_checkpoint_that_changes_while_it_is_sent_is_sent_again_before_it_is_named(mirror, storage, tmp_path):
    write(tmp_path, INDEX, DATA, "checkpoint")

    def overtake(operation, path):
        write(tmp_path, "checkpoint", DATA, content="newer content")

    storage.faults.append(overtake)
    mirror.finish()
    assert mirror.store.read_bytes("checkpoint") == mirror.store.read_bytes(DATA) == b"newer content"
    assert storage.log == [("put", DATA), ("put", DATA), ("put", INDEX), ("put", "checkpoint")]


def test_one_that_is_deleted_while_it_is_sent_is_not_named(mirror, storage, tmp_path):
    write(tmp_path, INDEX, DATA, content="old")
    write(tmp_path, "checkpoint", content="names 8")

    def delete(operation, path):
        for name in (INDEX, DATA):
            os.remove(tmp_path / name)
        write(tmp_path, "checkpoint", content="names 9")
        write(tmp_path, "model-9.index")

    storage.faults.append(delete)
    mirror.finish()
    assert mirror.store.read_bytes("checkpoint") == b"names 9"
    assert mirror.store.sizes().keys() == {".tpack.run.json", "checkpoint", "model-9.index"}
    # The half of it that came first.
    assert ("remove", DATA) in storage.log


def test_what_grows_is_sent_less_often_and_with_each_checkpoint(mirror, storage, tmp_path, monkeypatch):
    monkeypatch.setattr(mirror_module, "_TIMES_BETWEEN", 1e9)
    write(tmp_path, "log.log")
    mirror._send(everything=False)
    write(tmp_path, "log.log", content="a longer one")
    mirror._send(everything=False)
    assert storage.log == [("put", "log.log")]
    write(tmp_path, "checkpoint")
    mirror._send(everything=False)
    assert storage.log[1:] == [("put", "log.log"), ("put", "checkpoint")]


def test_what_cannot_be_sent_is_named_at_the_end_and_stays_here(mirror, storage, tmp_path):
    write(tmp_path, "a", INDEX, "checkpoint")
    storage.faults.extend([lambda *_: None, half, half, half])
    with pytest.raises(RemoteError, match=r"2 file\(s\) of this run could not be .*/run \(checkpoint, model-8.index\)"):
        mirror.finish()
    assert "checkpoint" not in mirror.store.sizes()
    mirror.close()
    assert mirror.store.sizes().keys() == {"a", INDEX, "checkpoint"}


def test_a_failure_is_said_once_and_its_end_too(mirror, storage, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("logging.Logger.propagate", True, raising=False)
    write(tmp_path, "a")
    said = []
    monkeypatch.setattr(mirror_module._logger, "warning", said.append)
    monkeypatch.setattr(mirror_module._logger, "info", said.append)
    # Looks at once: twice in vain, and then with success.
    monkeypatch.setattr(mirror_module, "PERIOD_SECS", 0.0)
    storage.faults.extend([unreachable] * 6)
    rounds = iter([False, False, False, True])
    monkeypatch.setattr(mirror._stopped, "wait", lambda secs: next(rounds))
    mirror._work()
    assert [line.partition(URL)[2][:20] for line in said] == [": cannot write fault", " again."]


def test_of_two_runs_the_later_one_has_the_place(mirror, storage, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    second = Mirror(Store(URL), str(other), {}, ())
    write(tmp_path, INDEX, "checkpoint")
    with pytest.raises(RemoteError, match=r"process \d+ on .* writes to faulty://bucket/run since this run began"):
        mirror.finish()
    with pytest.raises(RemoteError, match="two runs would mix"):
        mirror.check()
    assert "checkpoint" not in mirror.store.sizes()
    write(other, "checkpoint")
    second.check()
    second.close()
    assert mirror.store.sizes().keys() == {INDEX, "checkpoint"}
    assert described_owner(b"nonsense") == "another run"


def test_a_place_that_was_emptied_by_hand_is_still_this_runs(mirror, storage, tmp_path):
    mirror.store.remove(".tpack.run.json")
    write(tmp_path, "checkpoint")
    mirror.finish()
    assert mirror.store.sizes().keys() == {".tpack.run.json", "checkpoint"}


def test_a_directory_that_is_gone_removes_nothing_there(storage, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    mirror = Mirror(Store(URL), str(run), {}, ())
    write(run, INDEX)
    mirror.finish()
    os.remove(run / INDEX)
    run.rename(tmp_path / "elsewhere")
    with pytest.raises(RemoteError, match="in which this run writes, is gone"):
        mirror.close()
    assert INDEX in mirror.store.sizes()


def test_a_directory_that_never_rests_is_an_error(mirror, storage, tmp_path, monkeypatch):
    sizes = iter(range(10_000))
    write(tmp_path, INDEX)
    put = mirror.store.put_file
    monkeypatch.setattr(
        mirror.store,
        "put_file",
        lambda path, name: (put(path, name), write(tmp_path, INDEX, content="x" * next(sizes))),
    )
    with pytest.raises(RemoteError, match="change faster than they can be sent"):
        mirror.finish()
