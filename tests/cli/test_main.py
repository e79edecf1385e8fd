import os
import subprocess
import sys

import pytest

from tests.helpers.source import ROOT
from tpack.cli import reduce
from tpack.cli.main import main
from tpack.errors import ConfigError, DeviceError
from tpack.version import __version__


def failing(error):
    def run(options):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code"), [(ConfigError("too many"), 2), (DeviceError("too few"), 1), (OSError("no disk"), 1)]
)
def test_errors_become_messages_and_exit_codes(monkeypatch, capsys, error, code):
    monkeypatch.setattr(reduce, "run", failing(error))
    assert main(["reduce"]) == code
    assert capsys.readouterr() == ("", f"tpack reduce: {error}\n")


def test_what_a_command_returns_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(reduce, "run", lambda options: f"{options.towers} towers\n")
    assert main(["reduce", "--towers", "3"]) == 0
    assert capsys.readouterr().out == "3 towers\n"


@pytest.mark.parametrize(("arguments", "text"), [([], "required: COMMAND"), (["expand"], "invalid choice: 'expand'")])
def test_unknown_commands_are_refused(capsys, arguments, text):
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 2
    assert text in capsys.readouterr().err


def test_python_m_tpack_is_the_same_command():
    command = [sys.executable, "-m", "tpack", "--version"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"tpack {__version__}\n")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["inspect", "--help"], ["plot", "--help"], ["reduce", "--help"], ["launch", "--help"]]
)
def test_help_loads_neither_tensorflow_nor_matplotlib(arguments):
    code = (
        f"import atexit, sys; from tpack.cli.main import main\n"
        f"atexit.register(lambda: print(*sys.modules))\nmain({arguments})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    text, _, loaded = done.stdout.rstrip().rpartition("\n")
    assert done.returncode == 0, done.stderr
    assert text.startswith("usage:")
    assert not {"tensorflow", "matplotlib", "tqdm"} & set(loaded.split())
