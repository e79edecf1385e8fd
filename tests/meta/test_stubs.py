"""Type checkers know the names that are loaded on first use: a wrong argument is found before a script runs."""

import subprocess
import sys

from tests.helpers.source import ROOT
from tests.helpers.stubs import stubs

SCRIPT = """\
import tpack
from tpack import BatchData, FakeData, ModelSaver, TrainConfig, SyncMultiGPUTrainerReplicated, logger
from tpack import launch_train_with_config, InputDesc
from tpack.callbacks import ModelSavor
ModelSaver(max_to_keep=3)
ModelSaver(max_to_keeep=3)
ModelSaver(max_to_keep="three")
flow = BatchData(FakeData([[3]], size=10), "2")
launch_train_with_config(TrainConfig, SyncMultiGPUTrainerReplicated(8))
launch_train_with_config(TrainConfig(dataflow=flow), SyncMultiGPUTrainerReplicated(8))
size: int = len(tpack.dataflow.FakeData([[3]]))
flow.sise()
InputDesc(None, [1], "x")
logger.set_logger_dir("x")
"""
FOUND = {
    4: 'has no attribute "ModelSavor"; maybe "ModelSaver"?',
    6: 'Unexpected keyword argument "max_to_keeep" for "ModelSaver"',
    7: 'Argument "max_to_keep" to "ModelSaver" has incompatible type "str"; expected "int"',
    8: 'Argument 2 to "BatchData" has incompatible type "str"; expected "int"',
    9: 'Argument 1 to "launch_train_with_config" has incompatible type "type[TrainConfig]"',
    12: '"BatchData" has no attribute "sise"',
}


def test_stubs_are_up_to_date():
    wanted = dict(stubs())
    assert len(wanted) > 5
    outdated = [str(path) for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    assert outdated == [], "write them anew: python -m tests.helpers.stubs"
    assert sorted(ROOT.glob("tpack/**/*.pyi")) == sorted(wanted)


def test_mypy_finds_what_is_wrong_in_a_script_and_nothing_else(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    # What the whole tree was checked with: its results are used again.
    options = ["--config-file=pyproject.toml", "--no-error-summary", "--hide-error-context"]
    command = [sys.executable, "-m", "mypy", *options, str(path)]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    # Results of an equal script that are used again tell where that one was.
    found = [line.split("script.py:", 1)[1] for line in lines if "script.py:" in line and "note:" not in line]
    assert [int(line.split(":")[0]) for line in found] == list(FOUND)
    for line, wanted in zip(found, FOUND.values(), strict=True):
        assert wanted in line
