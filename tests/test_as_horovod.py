"""Scripts of Horovod's run unedited from the command line."""

import subprocess
import sys
from pathlib import Path

from tests.helpers.source import ROOT

TRAIN = """
import sys
import tensorflow.compat.v1 as tf
import horovod.tensorflow as hvd

assert sys.argv == [__file__, "--lr", "0.1"], sys.argv
hvd.init()
tf.disable_eager_execution()
weight = tf.get_variable("w", [], initializer=tf.constant_initializer(float(hvd.rank())))
optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
train = optimizer.minimize(weight * (hvd.rank() + 1))
copied = hvd.broadcast_global_variables(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(copied)
    session.run(train)
    print(hvd.rank(), "of", hvd.size(), "has", session.run(weight))
"""


def test_a_script_runs_unedited_in_each_worker(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    command = [sys.executable, "-m", "tpack", "launch", "-n", "2", "--log-dir", str(tmp_path / "log")]
    command += ["-m", "tpack.as_horovod", str(tmp_path / "train.py"), "--lr", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(2):
        assert f"[{rank}] {rank} of 2 has -1.5" in done.stdout


def test_a_script_is_wanted() -> None:
    command = [sys.executable, "-m", "tpack.as_horovod"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert "usage: python -m tpack.as_horovod SCRIPT" in done.stderr
