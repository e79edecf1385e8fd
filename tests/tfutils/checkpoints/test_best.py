import os

import pytest

from tpack.errors import InputError
from tpack.tfutils.checkpoints.best import (
    BEST_SUFFIX,
    Kept,
    best_prefix,
    finish_or_remove,
    move_checkpoint,
    read_kept,
    remove_others,
    write_kept,
)

ENDS = (".index", ".data-00000-of-00001")


def make(directory, *prefixes):
    for prefix in prefixes:
        for end in ENDS:
            (directory / f"{prefix}{end}").write_text(prefix)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize(
    ("kept", "is_single"), [([Kept(0.5, 3)], True), ([Kept(0.5, 3)], False), ([Kept(-1.0, 9), Kept(2.0, 1)], False)]
)
def test_what_is_written_down_is_read_again(tmp_path, kept, is_single):
    path = str(tmp_path / "min-cost")
    assert read_kept(path) == []
    write_kept(path, "cost", kept, is_single=is_single)
    assert read_kept(path) == kept


@pytest.mark.parametrize("content", ["", "{}", "[1, 2]", '{"kept": 5}', "\ufeff"])
def test_damaged_file_is_an_error(tmp_path, content):
    path = str(tmp_path / "min-cost")
    (tmp_path / f"min-cost{BEST_SUFFIX}").write_text(content)
    with pytest.raises(InputError):
        read_kept(path)


def test_best_is_the_first_if_it_is_there(tmp_path):
    path = str(tmp_path / "min-cost")
    write_kept(path, "cost", [Kept(1.0, 7), Kept(2.0, 3)], is_single=False)
    make(tmp_path, "min-cost-3")
    assert best_prefix(path) is None
    make(tmp_path, "min-cost-7")
    assert best_prefix(path) == f"{path}-7"
    assert best_prefix(str(tmp_path / "other")) is None


def test_checkpoint_takes_the_place_of_another(tmp_path):
    make(tmp_path, "new", "old")
    move_checkpoint(str(tmp_path / "new"), str(tmp_path / "old"))
    assert names(tmp_path) == sorted(f"old{end}" for end in ENDS)
    assert {path.read_text() for path in tmp_path.iterdir()} == {"new"}


@pytest.mark.parametrize(("is_single", "left"), [(True, ["min-cost"]), (False, [])])
def test_what_is_complete_aside_is_finished_where_its_name_is_known(tmp_path, is_single, left):
    make(tmp_path, "min-cost.aside")
    finish_or_remove(str(tmp_path / "min-cost"), is_single=is_single)
    assert names(tmp_path) == sorted(f"{prefix}{end}" for prefix in left for end in ENDS)


def test_others_are_removed_the_index_first(tmp_path, monkeypatch):
    make(tmp_path, "min-cost-1", "min-cost-2", "min-cost", "min-cost-x", "max-cost-1", "min-cost-5")
    (tmp_path / f"min-cost-5{BEST_SUFFIX}").touch()
    removed, remove = [], os.remove
    monkeypatch.setattr(os, "remove", lambda path: (removed.append(os.path.basename(path)), remove(path)))
    remove_others(str(tmp_path / "min-cost"), {2})
    assert removed == [f"min-cost-1{end}" for end in ENDS]
