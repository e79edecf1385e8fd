"""Scripts of Horovod's run unedited from the command line."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.helpers import preloaded
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


SCRIPT = """
import sys
from tpack.as_horovod import install_as_horovod
install_as_horovod()
install_as_horovod()
import horovod.tensorflow as hvd
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.mpi_ops import allgather
from horovod.common.process_sets import ProcessSet
import tpack.horovod
assert hvd is tpack.horovod and hvd.__spec__.name == "tpack.horovod"
assert Compression is hvd.Compression and allgather is hvd.allgather and ProcessSet is hvd.ProcessSet
try:
    import horovod.torch
except ImportError as error:
    print(error)
hvd.init()
print(hvd.size())
"""


def run_alone(tmp_path: Path, text: str) -> Any:
    script = tmp_path / "script.py"
    script.write_text(text)
    return preloaded.run(script, cwd=tmp_path)


def test_horovods_modules_are_tpacks(tmp_path: Path) -> None:
    done = run_alone(tmp_path, SCRIPT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "tpack has no horovod.torch: expected horovod.tensorflow; docs/from_horovod.md has what to use",
        "1",
    ]


def test_another_horovod_that_was_imported_is_an_error(tmp_path: Path) -> None:
    done = run_alone(
        tmp_path,
        "import sys, types\n"
        "sys.modules['horovod'] = types.ModuleType('horovod')\n"
        "from tpack.as_horovod import install_as_horovod\n"
        "install_as_horovod()\n",
    )
    assert done.returncode == 1
    assert "call tpack.install_as_horovod() before the first import of horovod" in done.stderr
