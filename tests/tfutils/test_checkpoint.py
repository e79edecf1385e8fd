"""What people call a checkpoint, and which one of a directory is taken."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.checkpoints import save_checkpoint
from tpack.errors import CheckpointError
from tpack.tfutils.checkpoint import latest_checkpoint, resolve_checkpoint

VALUES = {"W": np.arange(100, dtype="float32")}


def save_steps(directory: Path, *steps: int) -> list[str]:
    """Save checkpoints that were written one second after another, whatever the clock says."""
    prefixes = [save_checkpoint(directory, VALUES, step) for step in steps]
    for age, prefix in enumerate(prefixes):
        os.utime(prefix + ".index", (1_000_000 + age, 1_000_000 + age))
    return prefixes


def test_all_names_of_a_checkpoint_give_its_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (prefix,) = save_steps(tmp_path, 7)
    names = ["", ".index", ".meta", ".data-00000-of-00001"]
    assert {resolve_checkpoint(prefix + suffix) for suffix in names} == {prefix}
    assert resolve_checkpoint(str(tmp_path)) == prefix
    assert resolve_checkpoint(str(tmp_path / "checkpoint")) == prefix
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_checkpoint("~/model-7") == prefix
    monkeypatch.chdir(tmp_path)
    assert resolve_checkpoint("checkpoint") == "./model-7"


def test_checkpoint_in_one_file_is_left_to_the_reader(tmp_path: Path) -> None:
    (tmp_path / "resnet.ckpt").write_bytes(b"an old format")
    assert resolve_checkpoint(str(tmp_path / "resnet.ckpt")) == str(tmp_path / "resnet.ckpt")


def test_missing_checkpoint_lists_checkpoints_and_near_names_first(tmp_path: Path) -> None:
    for k in range(25):
        (tmp_path / f"other-{k:02}.index").touch()
    (tmp_path / "model-15.index").touch()
    (tmp_path / "another.log").touch()
    with pytest.raises(
        CheckpointError, match=r"no checkpoint .*model-5\. .* are: model-15, other-00, other-01, .* and 6 more"
    ):
        resolve_checkpoint(str(tmp_path / "model-5"))


def test_missing_directory_and_empty_directory_are_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="There is no directory .*nowhere either"):
        resolve_checkpoint(str(tmp_path / "nowhere" / "model-5"))
    with pytest.raises(CheckpointError, match=r"expected a directory with a checkpoint\. The directory .* is empty"):
        resolve_checkpoint(str(tmp_path))


def test_latest_checkpoint_is_the_one_that_the_directory_names(tmp_path: Path) -> None:
    prefixes = save_steps(tmp_path, 1, 2, 3)
    assert latest_checkpoint(str(tmp_path)) == prefixes[2]
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model-2"\n')
    assert latest_checkpoint(str(tmp_path)) == prefixes[1]


@pytest.mark.parametrize("content", [None, "", "\0" * 80, "model_checkpo", 'model_checkpoint_path: "model-9"\n'])
def test_latest_checkpoint_without_a_usable_name_is_the_newest(tmp_path: Path, content: str | None) -> None:
    prefixes = save_steps(tmp_path, 1, 2, 3)
    if content is None:
        (tmp_path / "checkpoint").unlink()
    else:
        (tmp_path / "checkpoint").write_text(content)
    assert latest_checkpoint(str(tmp_path)) == prefixes[2]


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_latest_checkpoint_skips_damaged_ones(tmp_path: Path, suffix: str) -> None:
    prefixes = save_steps(tmp_path, 1, 2, 3)
    os.truncate(prefixes[2] + suffix, 20)
    assert latest_checkpoint(str(tmp_path)) == prefixes[1]
    os.remove(prefixes[1] + ".data-00000-of-00001")
    assert latest_checkpoint(str(tmp_path)) == prefixes[0]
    os.remove(prefixes[0] + ".data-00000-of-00001")
    with pytest.raises(
        CheckpointError, match=r"has 3 checkpoint\(s\), and none of them loads: model-3, model-2, model-1"
    ):
        latest_checkpoint(str(tmp_path))


def test_latest_checkpoint_ignores_what_a_killed_save_left(tmp_path: Path) -> None:
    (prefix,) = save_steps(tmp_path, 1)
    shutil.copy(prefix + ".data-00000-of-00001", tmp_path / "model-2.data-00000-of-00001.tempstate123")
    shutil.copy(prefix + ".data-00000-of-00001", tmp_path / "model-2.data-00000-of-00001")
    assert latest_checkpoint(str(tmp_path)) == prefix


def test_latest_checkpoint_follows_a_directory_that_was_moved(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    save_steps(tmp_path / "old", 1)
    (tmp_path / "old" / "checkpoint").write_text(f'model_checkpoint_path: "{tmp_path}/old/model-1"\n')
    shutil.move(tmp_path / "old", tmp_path / "new")
    assert latest_checkpoint(str(tmp_path / "new")) == str(tmp_path / "new" / "model-1")


def test_checkpoints_of_one_moment_are_ordered_by_number(tmp_path: Path) -> None:
    prefixes = save_steps(tmp_path, 9, 10)
    for prefix in prefixes:
        os.utime(prefix + ".index", (1_000_000, 1_000_000))
    (tmp_path / "checkpoint").unlink()
    assert latest_checkpoint(str(tmp_path)) == prefixes[1]


@pytest.mark.parametrize("name", ["empty", "nowhere"])
def test_latest_checkpoint_of_nothing_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    assert latest_checkpoint(str(tmp_path / name)) is None


@pytest.mark.parametrize("url", ["ram://checkpoints", "file://{tmp_path}"])
def test_checkpoints_are_found_wherever_tensorflow_reads(tmp_path: Path, url: str) -> None:
    directory = url.format(tmp_path=tmp_path)
    prefix = save_checkpoint(directory, VALUES, 7)
    assert prefix == f"{directory}/model-7"
    assert resolve_checkpoint(directory) == resolve_checkpoint(f"{prefix}.index") == prefix
    with pytest.raises(CheckpointError, match="there is no checkpoint .*/model-8"):
        resolve_checkpoint(f"{directory}/model-8")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (resolve_checkpoint, "'nowhere://model-7' cannot be used: Protocol not known: nowhere"),
        (latest_checkpoint, "cannot look for a checkpoint at nowhere://model-7.*: .*not implemented"),
    ],
)
def test_a_place_that_cannot_be_read_is_not_taken_for_an_empty_one(function: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        function("nowhere://model-7")


@pytest.mark.parametrize("name", ["model-1.index", "model-1", "checkpoint"])
def test_a_pipe_in_the_place_of_a_checkpoint_is_refused(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(CheckpointError, match=f"{name} is a pipe, a device or the like: expected a regular file"):
        resolve_checkpoint(str(tmp_path / name.removesuffix(".index")))
