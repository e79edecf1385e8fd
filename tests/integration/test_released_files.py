"""Files of earlier releases, in ``tests/data``: what docs/stability.md promises of them."""

import importlib
import json
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tools import release_files
from tpack import logger
from tpack.callbacks.monitors.run_status import read_run
from tpack.cli.main import main
from tpack.dataflow import NumpySerializer, TFRecordSerializer

RELEASES = sorted(path.name for path in release_files.DATA.iterdir() if path.is_dir())
PREVIOUS = "0.8.0"
# By package: names of the previous release that are no longer there, which the changelog lists under "Removed".
REMOVED: dict[str, set[str]] = {}


@pytest.fixture(params=RELEASES)
def release(request):
    return request.param


@pytest.fixture
def run(release, tmp_path):
    """A copy of a run that the release has begun."""
    yield shutil.copytree(release_files.DATA / release / "run", tmp_path / "run")
    logger.close_logger_dir()


def test_a_run_goes_on_to_the_weights_of_its_own_release(release, run):
    wanted = dict(np.load(release_files.DATA / release / "end.npz"))
    with tf.Graph().as_default():
        found = release_files.train(run, 2 * release_files.EPOCHS)
    # The variables of the optimizer, and the step, too.
    assert found.keys() == wanted.keys() > {"dense/W", "dense/W/Adam_1", "table/Adam", "global_step"}
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6, err_msg=name)
    epochs = [entry["epoch_num"] for entry in json.loads((run / "stats.json").read_text(encoding="utf-8"))]
    assert epochs == [1, 2, 3, 4]


def test_commands_show_a_run(release, run, capsys):
    status = read_run(str(run))
    assert (status["state"], status["progress"]["global_step"]) == ("finished", 6)
    assert main(["watch", "--once", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "finished" in shown and "cost" in shown
    assert main(["plot", str(run), "--html", "--out", str(run / "curves.html")]) == 0
    assert "cost" in (run / "curves.html").read_text(encoding="utf-8")
    assert main(["inspect", str(run / "min-cost")]) == 0
    assert "dense/W" in capsys.readouterr().out


@pytest.mark.parametrize(("flow", "name"), [(TFRecordSerializer, "points.tfrecord"), (NumpySerializer, "points.npz")])
def test_stored_points_are_the_same(release, flow, name):
    stored = flow.load(str(release_files.DATA / release / name), shuffle=False)
    stored.reset_state()
    found, wanted = list(stored), release_files.points()
    assert len(found) == len(wanted) == 32
    for (x, row), (wanted_x, wanted_row) in zip(found, wanted, strict=True):
        assert (x.dtype, row) == (np.float32, wanted_row)
        np.testing.assert_array_equal(x, wanted_x)


def test_public_names_of_the_previous_release_are_there():
    lines = (release_files.DATA / PREVIOUS / "public_names.txt").read_text(encoding="utf-8").splitlines()
    listed = dict(line.split(": ", 1) for line in lines if not line.endswith(": "))
    gone = {}
    for package, names in listed.items():
        module = importlib.import_module(package)
        if missing := {name for name in names.split() if not hasattr(module, name)}:
            gone[package] = missing
    assert sum(len(names.split()) for names in listed.values()) > 700
    assert gone == REMOVED
