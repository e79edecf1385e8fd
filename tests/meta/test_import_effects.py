"""Importing does nothing: no TensorFlow where it is not wanted, no thread, variable, handler, patch or output.

Each import happens in a process of its own, which compares itself before and after.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.helpers.source import ROOT, modules_under

PROBE = """
import importlib, json, logging, os, random, signal, sys, threading, warnings

def state():
    loggers = [logging.getLogger(), *map(logging.getLogger, sorted(logging.root.manager.loggerDict))]
    return {
        "environment": dict(os.environ),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "signal handlers": {int(number): str(signal.getsignal(number)) for number in signal.valid_signals()},
        "log handlers": {logger.name: str(logger.handlers) for logger in loggers if logger.handlers},
        "warning filters": str(warnings.filters),
        "hooks": [str(hook) for hook in (sys.excepthook, threading.excepthook, sys.stdout, sys.stderr)],
        "random state": str(random.getstate()),
        "start of children": str(importlib.import_module("multiprocessing").get_start_method(allow_none=True)),
        "directory": os.getcwd(),
    }

names, preloaded = json.loads(sys.argv[1])
for name in preloaded:
    importlib.import_module(name)
for stream in (1, 2):
    os.write(stream, b"PRELOADED\\n")
before = state()
for name in names:
    importlib.import_module(name)
after = state()
report = {
    "changed": {key: [before[key], after[key]] for key in before if before[key] != after[key]},
    "loaded": sorted({name.split(".")[0] for name in sys.modules}),
}
if "tensorflow" in sys.modules:
    tensorflow = sys.modules["tensorflow"]
    report["executes eagerly"] = tensorflow.executing_eagerly()
with open(sys.argv[2], "w") as file:
    json.dump(report, file)
"""
# What the standard library, numpy and TensorFlow do at their own import is not tpack's doing.
OTHERS = ["logging", "multiprocessing", "numpy", "msgpack", "psutil", "tabulate", "tqdm", "tqdm.auto"]
HEAVY = {"tensorflow", "keras", "cv2", "lmdb", "zmq", "matplotlib", "sklearn"}


def import_in_a_new_process(names, tmp_path, preloaded):
    """Import `preloaded` and then `names`.

    Returns:
        What importing `names` changed and which packages are loaded; what it wrote.
    """
    report = tmp_path / "report.json"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", PROBE, json.dumps([names, preloaded]), str(report)]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = [stream.partition("PRELOADED\n")[2] for stream in (done.stdout, done.stderr)]
    return json.loads(report.read_text()), "".join(written)


@pytest.mark.parametrize("name", ["tpack", "tpack.dataflow", "tpack.utils"])
def test_import_without_tensorflow_does_nothing(name, tmp_path):
    report, output = import_in_a_new_process([name], tmp_path, OTHERS)
    assert report["changed"] == {}
    assert not HEAVY & set(report["loaded"])
    assert output == ""


def test_every_module_of_utils_and_dataflow_does_nothing(tmp_path):
    names = [m.name for m in modules_under("tpack") if m.name.startswith(("tpack.utils", "tpack.dataflow"))]
    report, output = import_in_a_new_process(names, tmp_path, OTHERS)
    assert len(names) > 2
    assert report["changed"] == {}
    assert not HEAVY & set(report["loaded"])
    assert output == ""


def test_every_other_module_does_nothing_beyond_loading_tensorflow(tmp_path):
    names = [module.name for module in modules_under("tpack")]
    report, output = import_in_a_new_process(names, tmp_path, [*OTHERS, "tensorflow", "tensorflow.compat.v1"])
    assert report["changed"] == {}
    assert report["executes eagerly"] is True
    assert output == ""


def test_the_probe_sees_what_an_import_does(tmp_path):
    guilty = "import os, threading, tabulate\nos.environ['GUILTY'] = '1'\nprint('hello')\n"
    (tmp_path / "guilty.py").write_text(guilty + "threading.Thread(target=threading.Event().wait, daemon=True).start()")
    report, output = import_in_a_new_process(["guilty"], tmp_path, OTHERS)
    assert set(report["changed"]) == {"environment", "threads"}
    assert output == "hello\n"
