"""Trainings whose log directory is on remote storage, and that go on in a fresh process on a fresh machine."""

import json
import os
import shutil

import numpy as np
import pytest

from tests.helpers import preloaded, remote_training
from tpack.tfutils.checkpoint import CheckpointReader, latest_checkpoint
from tpack.tfutils.sessinit import SmartInit
from tpack.utils.remote import directories

EPOCHS = 3


def train(log_dir, max_epoch, cache):
    env = {**os.environ, "PYTHONPATH": str(preloaded.ROOT), "TPACK_REMOTE_CACHE": str(cache)}
    done = preloaded.run(remote_training.__file__, [log_dir, max_epoch, "--best"], env=env)
    assert done.returncode == 0, done.stderr
    # A fresh machine has nothing of it, and this one had nothing that was not sent.
    assert not list(cache.glob("*"))
    return [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("step ")], done.stderr


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    train(folder / "log", EPOCHS, folder / "cache")
    return folder / "log"


def values(directory):
    prefix = latest_checkpoint(str(directory))
    reader = CheckpointReader(prefix)
    return {name: reader.read(name) for name in reader.shapes}


def assert_same(directory, expected):
    found, wanted = values(directory), values(expected)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    with open(directory / "stats.json") as mine, open(expected / "stats.json") as other:
        costs = [[entry["cost"] for entry in json.load(file)] for file in (mine, other)]
    assert costs[0] == costs[1]
    assert len(costs[0]) == EPOCHS
    assert {name for name in os.listdir(directory) if name.endswith(".index")} == {
        name for name in os.listdir(expected) if name.endswith(".index")
    }


def test_a_fresh_machine_goes_on_to_the_last_bit_and_half_a_checkpoint_is_refused_loudly(tmp_path, uninterrupted):
    there, url, cache = tmp_path / "there", f"local://{tmp_path}/there", tmp_path / "cache"
    assert [train(url, epochs, cache)[0] for epochs in (1, 2)] == [list(range(1, 9)), list(range(9, 17))]
    # As storage leaves it that does not put objects as a whole.
    with open(there / "model-16.data-00000-of-00001", "r+b") as file:
        file.truncate(20)
    steps, log = train(url, EPOCHS, cache)
    assert steps == list(range(9, 25))
    assert "Skipping a checkpoint that does not load" in log
    assert "model-16 is damaged" in log
    assert_same(there, uninterrupted)
    assert (there / "log.log").read_text().count("Resuming from") == 2


def test_weights_are_loaded_from_there(tmp_path, uninterrupted, monkeypatch):
    monkeypatch.setenv("TPACK_REMOTE_CACHE", str(tmp_path / "cache"))
    shutil.copytree(uninterrupted, tmp_path / "there")
    wanted = CheckpointReader(str(uninterrupted / "model-16")).read("W")
    try:
        for name, step in (("", 24), ("/model-16", 16), ("/model-16.index", 16)):
            restore = SmartInit(f"local://{tmp_path}/there{name}")
            assert restore._value("global_step") == step
        np.testing.assert_array_equal(restore._value("W"), wanted)
    finally:
        directories._known.close()
