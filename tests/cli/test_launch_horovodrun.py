"""horovodrun's arguments as those of tpack launch."""

import os
import subprocess

import psutil
import pytest

from tests.helpers.log_lines import captured_log
from tpack.cli.launch import launch_arguments
from tpack.cli.main import main
from tpack.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("-np 4 -H a:2,b:2 python train.py --lr 0.1", "-n 4 --hosts a:2,b:2 train.py --lr 0.1"),
        ("-np 2 -H localhost:2 --gloo --verbose python3.11 -u train.py", "-n 2 train.py"),
        ("-np 2 python -m my.module -np 3", "-n 2 -m my.module -np 3"),
        ("--num-proc 2 train.py", "-n 2 train.py"),
        ("-np 8 --min-np 4 --reset-limit 3 train.py", "-n 8 --min-workers 4 --restarts 3 train.py"),
        ("-np 2 --start-timeout 90 --output-filename out train.py", "-n 2 --start-timeout 90 --log-dir out train.py"),
    ],
)
def test_options_become_those_of_tpack_launch(given: str, expected: str) -> None:
    assert launch_arguments(given.split()) == expected.split()


def test_ssh_gets_its_port_and_its_key() -> None:
    made = launch_arguments(["-np", "2", "-H", "a:1,b:1", "-p", "2222", "-i", "my key", "train.py"])
    assert made[made.index("--ssh") + 1].endswith("-p 2222 -i 'my key'")


def test_machines_of_a_file_are_read(tmp_path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# machines\na slots=2\n\nb slots=4 # large\nc\n")
    assert launch_arguments(["--hostfile", str(file), "train.py"]) == ["--hosts", "a:2,b:4,c", "train.py"]
    file.write_text("a max_slots\n")
    with pytest.raises(ConfigError, match="'a max_slots': expected a machine and its slots"):
        launch_arguments(["--hostfile", str(file), "train.py"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("-np 2 --fusion-threshold-mb 32 train.py", r"--fusion-threshold-mb: expected .*write 'tpack launch -n 2"),
        ("-np x train.py", "invalid int value"),
        ("-np 2 ./run.sh", r"got './run.sh': expected a Python script"),
        ("-np 2", "got 'no command': expected a Python script"),
    ],
)
def test_what_has_no_counterpart_is_refused(given: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        launch_arguments(given.split())


def test_the_command_says_what_it_becomes_and_runs_it(tmp_path, capfd, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import os, sys\nprint(os.environ['RANK'], sys.argv[1:])\n")
    with captured_log():
        assert main(["launch", "--as", "horovodrun", "-np", "2", "python", "train.py", "-np", "3"]) == 0
    printed = capfd.readouterr()
    assert "tpack launch -n 2 train.py -np 3" in printed.out + printed.err
    assert "[1] 1 ['-np', '3']" in printed.out
    # What loses its parent from now on is no child of this process.
    shell = ["sh", "-c", "sleep 100 >/dev/null & echo $!"]
    orphan = psutil.Process(int(subprocess.run(shell, stdout=subprocess.PIPE, text=True, check=True).stdout))
    try:
        assert orphan.ppid() != os.getpid()
    finally:
        orphan.kill()
    assert main(["launch", "--as", "horovodrun", "-np", "2", "--mpi-args=x", "train.py"]) == 2
