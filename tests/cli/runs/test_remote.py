"""Runs on remote storage, which is in the memory of this process here, and what is fetched of them to be looked at."""

import json
import os
import threading

import fsspec
import pytest

from tpack.cli.main import main
from tpack.cli.runs.remote import is_shown, run_directories
from tpack.errors import RemoteError
from tpack.utils.remote.store import Store


@pytest.fixture
def bucket():
    memory = fsspec.filesystem("memory")

    def put(name, content):
        memory.pipe_file(f"/bucket/{name}", content.encode())

    yield put
    for path in memory.find("/bucket"):
        memory.rm(path)


def stats(*costs):
    return json.dumps([{"epoch_num": n, "global_step": 10 * n, "cost": cost} for n, cost in enumerate(costs, 1)])


def test_what_tells_of_a_run_is_fetched_and_nothing_else(bucket, tmp_path):
    bucket("a/runs/one/stats.json", stats(0.5))
    bucket("a/runs/one/log.log", "words")
    for name in ("model-10.index", "model-10.data-00000-of-00001", "events.out.tfevents.1", "ModelSaver/stats.json"):
        bucket(f"a/runs/one/{name}", "x")
    local = str(tmp_path / "two")
    given = ["memory://bucket/a/runs/one/", local, "memory://bucket/a/runs/one/stats.json"]
    with run_directories(given) as directories:
        first, here, file = directories.paths
        assert here == local
        assert first.endswith("/bucket/a/runs/one")
        assert file.endswith("/bucket/a/runs/one")
        assert sorted(os.listdir(first)) == sorted(os.listdir(file)) == ["log.log", "stats.json"]
    assert not os.path.exists(first)
    with run_directories(given[:1], is_shown) as directories:
        assert sorted(os.listdir(directories.paths[0])) == ["events.out.tfevents.1", "log.log", "stats.json"]


def test_curves_of_a_url_are_drawn_under_its_name(bucket, tmp_path, capsys):
    bucket("one/stats.json", stats(0.5, 0.25))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "stats.json").write_text(stats(0.6, 0.3))
    out = str(tmp_path / "curves.html")
    assert main(["plot", "--html", "--out", out, "memory://bucket/one", str(tmp_path / "two")]) == 0
    assert capsys.readouterr().out == f"{out}: 1 statistic(s) of 2 run(s)\n"
    with open(out, encoding="utf-8") as file:
        text = file.read()
    assert '"one"' in text
    assert '"two"' in text
    assert main(["watch", "memory://bucket/one", "memory://bucket/none"]) == 0
    printed = capsys.readouterr().out
    assert "cost 0.25" in printed
    assert "none: nothing yet" in printed


def test_a_url_without_a_run_is_an_error_that_names_it(bucket, capsys):
    assert main(["plot", "memory://bucket/none"]) == 2
    assert "memory://bucket/none has no stats.json with statistics" in capsys.readouterr().err


def test_what_is_new_is_fetched_while_it_is_watched_and_a_failure_is_told(bucket, monkeypatch):
    bucket("one/stats.json", stats(0.5))
    looks = threading.Semaphore(0)
    sizes, is_down = Store.sizes, threading.Event()

    def looked(store, max_depth=None):
        looks.release()
        if is_down.is_set():
            raise RemoteError("cannot list it")
        return sizes(store, max_depth)

    def wait_for_two_looks():
        # The second one begins after the first has been dealt with.
        for _ in range(2):
            assert looks.acquire(timeout=300)

    with run_directories(["memory://bucket/one"]) as directories:
        path = os.path.join(directories.paths[0], "stats.json")
        monkeypatch.setattr(Store, "sizes", looked)
        with directories.followed(0.01):
            bucket("one/stats.json", stats(0.5, 0.25))
            wait_for_two_looks()
            with open(path, encoding="utf-8") as file:
                assert len(json.load(file)) == 2
            assert directories.errors() == []
            is_down.set()
            wait_for_two_looks()
            wait_for_two_looks()
            assert directories.errors() == ["cannot list it"]
            is_down.clear()
            wait_for_two_looks()
            wait_for_two_looks()
            assert directories.errors() == []
