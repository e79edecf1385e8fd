"""The state beside a checkpoint is whole or absent, and goes when its checkpoint goes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tpack.errors import CheckpointError, ConfigError
from tpack.tfutils.train_state import (
    TrainState,
    prune_train_states,
    read_train_state,
    train_state_path,
    write_train_state,
)

STATE = TrainState(epoch_num=3, local_step=7, global_step=207)


def test_state_that_is_read_is_the_one_written(tmp_path: Path) -> None:
    prefix = str(tmp_path / "model-207")
    write_train_state(prefix, TrainState(1, 0, 0))
    write_train_state(prefix, STATE)
    assert read_train_state(prefix) == STATE
    assert os.listdir(tmp_path) == [os.path.basename(train_state_path(prefix))]


def test_state_can_be_written_beside_a_relative_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_train_state("model-1", STATE)
    assert read_train_state("model-1") == STATE


def test_missing_state_is_none(tmp_path: Path) -> None:
    assert read_train_state(str(tmp_path / "model-1")) is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", '{"epoch_num": 1}', json.dumps({"epoch_num": 0, "local_step": 0, "global_step": 0})]
)
def test_damaged_state_is_named(tmp_path: Path, content: str) -> None:
    prefix = str(tmp_path / "model-1")
    Path(train_state_path(prefix)).write_text(content)
    with pytest.raises(CheckpointError, match="model-1.*holds no training state"):
        read_train_state(prefix)


def test_every_flipped_bit_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    prefix = str(tmp_path / "model-207")
    write_train_state(prefix, STATE)
    path = Path(train_state_path(prefix))
    whole = path.read_bytes()
    refused = 0
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert read_train_state(prefix) == STATE
        except CheckpointError:
            refused += 1
    # What changes nothing turns one white space into another.
    assert refused > 8 * len(whole) - 20


def test_a_state_from_before_checksums_is_refused_in_words(tmp_path: Path) -> None:
    prefix = str(tmp_path / "model-207")
    Path(train_state_path(prefix)).write_text(json.dumps({"epoch_num": 3, "local_step": 7, "global_step": 207}))
    with pytest.raises(CheckpointError, match=r"as before tpack had checksums\. Without model-207\.train_state"):
        read_train_state(prefix)


@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
def test_death_while_writing_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    prefix = str(tmp_path / "model-1")
    write_train_state(prefix, STATE)

    def die(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if name == "write":
            patch.setattr(json, "dumps", die)
        else:
            patch.setattr(os, name, die)
        with pytest.raises(KeyboardInterrupt):
            write_train_state(prefix, TrainState(9, 9, 9))
    assert read_train_state(prefix) == STATE


def test_prune_removes_states_without_checkpoint_and_halves(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write_train_state(str(tmp_path / f"model-{step}"), TrainState(1, step, step))
    (tmp_path / "model-2.index").touch()
    (tmp_path / ".model-2.train_state.json.0a1b2c3d.tmp").touch()
    (tmp_path / "other.json").touch()
    removed = prune_train_states(str(tmp_path))
    assert [os.path.basename(path) for path in removed] == [
        ".model-2.train_state.json.0a1b2c3d.tmp",
        "model-1.train_state.json",
        "model-3.train_state.json",
    ]
    assert sorted(os.listdir(tmp_path)) == ["model-2.index", "model-2.train_state.json", "other.json"]


@pytest.mark.parametrize("numbers", [(0, 0, 0), (1, -1, 0), (1, 0, -1), (1.0, 0, 0), (True, 0, 0)])
def test_numbers_below_the_smallest_are_rejected(numbers: Any) -> None:
    with pytest.raises(ConfigError, match="TrainState got .*: expected an integer of at least [01]"):
        TrainState(*numbers)
