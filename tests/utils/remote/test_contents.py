import pytest

from tpack.utils.remote.contents import (
    data_of,
    index_of,
    is_fetched_first,
    is_head,
    is_of_checkpoint,
    is_sent,
    place_of,
    stem_of,
)

DATA = "model-8.data-00000-of-00001"


@pytest.mark.parametrize(
    ("name", "is_fetched", "place"),
    [
        ("checkpoint", True, 0),
        (DATA, False, 1),
        ("sub/" + DATA, False, 1),
        ("min-cost-8.data-00000-of-00001", True, 1),
        ("model-8.train_state.json", True, 1),
        ("model-8.data_state.msgpack", True, 1),
        ("model-8.index", True, 2),
        ("min-cost.index", True, 3),
        ("min-cost.best.json", True, 4),
        ("stats.json", True, 0),
        ("log.log", True, 0),
        ("events.out.tfevents.17.host.18", False, 0),
        ("graph-1123-125553.meta", False, 0),
    ],
)
def test_files_are_known_by_their_names(name, is_fetched, place):
    assert is_sent(name)
    assert is_fetched_first(name) is is_fetched
    assert place_of(name) == place
    assert is_of_checkpoint(name) is (place > 0)
    assert is_head(name) is (name == "checkpoint")


@pytest.mark.parametrize(
    "name",
    [
        ".tpack.lock",
        ".tpack.run.json",
        ".stats.json.0123abcd.tmp",
        "checkpoint.tmp0123456789abcdef0123456789abcdef",
        "model-8.index.tempstate123",
        "model-8_temp/part-00000-of-00001.data-00000-of-00001",
        "min-cost.aside.index",
    ],
)
def test_what_is_being_written_and_locks_are_neither_sent_nor_fetched(name):
    assert not is_sent(name)
    assert not is_fetched_first(name)


def test_data_and_index_belong_together():
    assert index_of(DATA) == "model-8.index"
    assert index_of("model-8.index") is None
    assert data_of("model-8", [DATA, "model-80.data-00000-of-00001", "model-8.index"]) == [DATA]
    assert {stem_of(f"run/model-8{suffix}") for suffix in ("", ".index", ".meta", ".data-00000-of-00001")} == {
        "run/model-8"
    }
