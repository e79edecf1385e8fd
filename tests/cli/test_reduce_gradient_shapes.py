"""Gradients of a script for ``tpack reduce --script``."""

import pytest

from tpack.cli import reduce
from tpack.cli.main import main
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.autotune import autotune
from tpack.reduction.autotune.autotune import MeasuredChoice
from tpack.reduction.autotune.measure import Measurement
from tpack.utils.python_child import ChildError


@pytest.fixture
def asked(monkeypatch):
    """Answer without measuring, and keep what was asked for."""
    calls = []

    def choose(devices, shapes, dtypes, *, options, cache):
        calls.append((shapes, dtypes))
        return MeasuredChoice(RoundRobinReducer(), "it was the first", (Measurement("round_robin", (0.025,)),))

    monkeypatch.setattr(autotune, "choose_by_measurement", choose)
    return calls


def test_gradients_are_those_of_a_script(asked, monkeypatch, tmp_path, capsys):
    log_dir = tmp_path / "log"
    log_dir.mkdir()
    (log_dir / "kept").touch()
    (tmp_path / "train.py").write_text(
        "import sys\n"
        "import tensorflow.compat.v1 as tf\n"
        "import tpack\n"
        "class Model(tpack.ModelDesc):\n"
        "    def inputs(self):\n"
        "        return [tf.TensorSpec([None], tf.int32, 'word')]\n"
        "    def build_graph(self, word):\n"
        "        table = tf.get_variable('table', [9, int(sys.argv[1])])\n"
        "        w = tf.get_variable('w', [int(sys.argv[1]), 2])\n"
        "        return tf.reduce_mean(tf.matmul(tf.gather(table, word), w))\n"
        "    def optimizer(self):\n"
        "        return tf.train.GradientDescentOptimizer(0.1)\n"
        f"tpack.logger.set_logger_dir({str(log_dir)!r}, action='d')\n"
        "config = tpack.TrainConfig(model=Model(), dataflow=[[[1, 2]]], steps_per_epoch=1, max_epoch=1)\n"
        "tpack.launch_train_with_config(config, tpack.SyncMultiGPUTrainerReplicated(8))\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    assert main(["reduce", "--towers", "2", "--script", "train.py 4"]) == 0
    assert asked[0] == (((4, 2),), ["float32"])
    assert "The gradients are 1 dense ones of train.py 4, and 1 sparse ones" in capsys.readouterr().out
    assert (log_dir / "kept").exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "--script got 'train.py': expected a Python script and its arguments"),
        ("pass", "ended before a trainer with one cost had built a tower: exit code 1: OSError: no data"),
        ("pass", "had built a tower: killed after 120 s (--timeout 120)"),
    ],
)
def test_scripts_that_build_no_tower_are_refused(monkeypatch, tmp_path, capsys, script, message):
    def run(_, *, timeout_secs):
        is_late = "killed" in message
        raise ChildError(f"killed after {timeout_secs:g} s" if is_late else "exit code 1: OSError: no data")

    monkeypatch.setattr(reduce, "python_child", run)
    monkeypatch.chdir(tmp_path)
    if script is not None:
        (tmp_path / "train.py").write_text(script, encoding="utf-8")
    assert main(["reduce", "--towers", "2", "--script", "train.py"]) == 2
    assert message in capsys.readouterr().err
