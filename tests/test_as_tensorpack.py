"""Scripts of tensorpack's run unedited from the command line, and so do their workers."""

import subprocess
import sys

import pytest

from tests.helpers.source import ROOT
from tpack import as_tensorpack

FLOW = """
import sys

from tensorpack.dataflow import DataFromList, MultiProcessMapData
from augment import double

if __name__ == "__main__":
    assert sys.argv == [__file__, "--lr", "0.1"], sys.argv
    flow = MultiProcessMapData(DataFromList([[1], [2]], shuffle=False), 1, double, buffer_size=1, strict=True)
    flow.reset_state()
    print(sorted(flow))
    sys.exit(3)
"""

AUGMENT = """
from tensorpack.utils.rect import IntBox

def double(point):
    return [2 * point[0], IntBox.__module__]
"""


def run(*arguments, **options):
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT, **options)


def test_a_script_runs_unedited_and_so_do_its_workers(tmp_path):
    (tmp_path / "augment.py").write_text(AUGMENT)
    (tmp_path / "train.py").write_text(FLOW)
    done = run("-m", "tpack.as_tensorpack", str(tmp_path / "train.py"), "--lr", "0.1")
    assert done.stdout == "[[2, 'tpack.legacy.code.rect'], [4, 'tpack.legacy.code.rect']]\n", done.stderr
    assert done.returncode == 3


def test_a_script_of_tensorpack_may_use_horovod(tmp_path):
    (tmp_path / "train.py").write_text(
        "import horovod.tensorflow as hvd\n"
        "from tensorpack import HorovodTrainer\n"
        "hvd.init()\n"
        "print(hvd.rank(), hvd.size(), HorovodTrainer.__module__)\n"
    )
    done = run("-m", "tpack.as_tensorpack", str(tmp_path / "train.py"))
    assert done.stdout.splitlines()[-1] == "0 1 tpack.horovod.trainer", done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [([], 2, "usage"), (["--help"], 0, "usage"), (["no/train.py"], 2, "'no/train.py' is no file")],
)
def test_a_script_is_wanted(arguments, code, said):
    done = run("-m", "tpack.as_tensorpack", *arguments)
    assert said in done.stderr
    assert done.returncode == code


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tf.placeholder(tf.float32, [])", "has no tf.placeholder, .* write 'import tpack.tf1 as tf', or let 'tpack"),
        ("[].no_such_name", "'list' object has no attribute 'no_such_name'"),
    ],
)
def test_what_tensorflow_2_has_no_more_is_told(tmp_path, monkeypatch, line, said):
    script = tmp_path / "train.py"
    script.write_text(f"import tensorflow as tf\n{line}\n")
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(as_tensorpack, "install_as_tensorpack", lambda: None)
    with pytest.raises(AttributeError, match=said):
        as_tensorpack.main([str(script)])
