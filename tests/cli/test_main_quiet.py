"""What TensorFlow logs from C++ is left out, and nothing else."""

import os
import pty
import subprocess
import sys

from tests.helpers.source import ROOT
from tpack.cli.main import main

PROGRAM = r"""
import logging, os, subprocess, sys
logging.basicConfig(format="%(message)s")
from tpack.cli.main import without_lines_of_tensorflow
with without_lines_of_tensorflow():
    logging.getLogger("tensorflow").warning("deprecated")
    logging.getLogger("tensorflow").error("zeroth")
    os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n")
    os.write(2, b"I0000 00:00:1795417603.982 29797 port.cc:153] oneDNN custom operations are on.\nfirst\n")
    os.write(2, b"2026-11-23 07:06:28.123456: I tensorflow/core/platform/cpu_feature_guard.cc:227] This binary\n")
    os.write(2, b"To enable the following instructions: AVX2, rebuild TensorFlow.\nE1123 07:06:28.1 1 a.cc:1] cuInit\n")
    print("second: I0000 00:00:1 stands inside", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-S", "-c", "import os; os.write(2, b'W0000 00:00:1.2 3 a.cc:4] x\\nthird\\n')"])
    os.write(2, b"F0000 00:00:1795417603.982 29797 a.cc:153] Check failed\n[11-23 07:05:00 @a.py:1] ours\nno end")
os.write(2, b"\nI0000 00:00:1.2 3 after\n")
"""
WANTED = """zeroth
first
second: I0000 00:00:1 stands inside
third
F0000 00:00:1795417603.982 29797 a.cc:153] Check failed
[11-23 07:05:00 @a.py:1] ours
no end
I0000 00:00:1.2 3 after
"""


def test_lines_of_tensorflow_are_left_out():
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == WANTED


def test_last_words_are_not_lost():
    program = PROGRAM.rpartition("os.write")[0] + "    os.abort()"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode < 0
    assert done.stderr.startswith(WANTED.rpartition("\nI0000")[0])


def test_on_a_terminal_python_draws_by_itself():
    program = (
        "import os, sys; from tpack.cli.main import without_lines_of_tensorflow\n"
        "with without_lines_of_tensorflow():\n"
        "    print('terminal:', sys.stderr.isatty(), os.isatty(2), end='', file=sys.stderr)\n"
        "print(' after', sys.stderr.isatty(), os.isatty(2), file=sys.stderr)\n"
    )
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, stderr=theirs, check=True)
    assert os.read(ours, 1000).split() == [b"terminal:", b"True", b"False", b"after", b"True", b"True"]
    os.close(ours)
    os.close(theirs)


SCRIPT = r"""
import os, sys, tensorflow
os.write(2, b"I0000 00:00:1795417603.982 29797 port.cc:153] oneDNN custom operations are on.\n")
os.write(2, b"E0000 00:00:1.2 3 cuda_platform.cc:52] failed call to cuInit: INTERNAL: UNKNOWN ERROR (303)\n")
os.write(2, b"E0000 00:00:1.2 3 cuda_dnn.cc:52] Could not create cudnn handle\n")
print(sys.argv[1:], __name__, os.path.basename(sys.path[0]) == os.path.basename(os.path.dirname(__file__)))
if sys.argv[1:] == ["--fail"]:
    tensorflow.contrib
sys.exit(3)
"""


def test_a_script_runs_without_lines_below_errors(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "tpack", "run", str(tmp_path / "train.py")]
    environment = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run([*command, "--a", "b"], env=environment, capture_output=True, text=True, check=False)
    # Errors, for TensorFlow 2.16, when it is imported.
    errors = [line for line in done.stderr.splitlines() if "Unable to register cu" not in line]
    assert errors == ["E0000 00:00:1.2 3 cuda_dnn.cc:52] Could not create cudnn handle"]
    assert (done.stdout, done.returncode) == ("['--a', 'b'] __main__ True\n", 3)
    done = subprocess.run([*command, "--fail"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "in <module>" in done.stderr
    assert "TensorFlow 2 has no tf.contrib" in done.stderr.splitlines()[-1]


def test_a_script_that_is_not_there_is_named(capsys):
    assert main(["run", "no/train.py"]) == 2
    assert capsys.readouterr().err == "tpack run: SCRIPT got 'no/train.py': expected a file\n"
