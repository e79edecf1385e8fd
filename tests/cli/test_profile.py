"""``tpack profile`` on a script that knows nothing of it."""

import pytest

from tests.helpers import preloaded
from tpack.cli.main import main

SCRIPT = """
import sys
from tests.helpers.toy_training import Line, line_input
from tpack import SimpleTrainer, TrainConfig, launch_train_with_config, logger
assert sys.argv[1:] == ["--rate", "3"], sys.argv
if {sets_directory}:
    logger.set_logger_dir("log")
config = TrainConfig(model=Line(), data=line_input(), monitors=[], steps_per_epoch={steps}, max_epoch=1)
launch_train_with_config(config, SimpleTrainer())
print("THE END")
"""


@pytest.mark.parametrize(
    ("options", "steps", "sets_directory", "code", "where"),
    [([], 12, True, 0, "log"), (["--go-on"], 12, False, 0, "profile"), (["--out", "there"], 4, True, 1, None)],
)
def test_a_script_is_profiled_without_being_edited(tmp_path, options, steps, sets_directory, code, where):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(steps=steps, sets_directory=sets_directory))
    program = tmp_path / "program.py"
    program.write_text("import sys; from tpack.cli.main import main; sys.exit(main())")
    done = preloaded.run(program, ["profile", "--steps", "3", "5", *options, "train.py", "--rate", "3"], cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert ("THE END" in done.stdout) == (steps == 4 or "--go-on" in options)
    if where is not None:
        assert "steps wait" in (tmp_path / where / "profile-3-5.txt").read_text()
    else:
        assert "no training of the script has reached the steps" in done.stderr


def test_a_script_must_be_there(capsys):
    assert main(["profile", "nowhere.py"]) == 2
    assert "SCRIPT got 'nowhere.py': expected a file" in capsys.readouterr().err
