import os
import subprocess
import sys

import pytest

from tests.helpers.source import ROOT
from tpack.cli import reduce
from tpack.cli.main import COMMANDS, main
from tpack.errors import ConfigError, DeviceError, WrongTypeError
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


@pytest.mark.parametrize("arguments", ["--help", b"--help", 5, ["reduce", 3]])
def test_arguments_are_texts(arguments):
    with pytest.raises(WrongTypeError, match="main got arguments of type .*: expected a sequence of texts"):
        main(arguments)


def test_every_command_has_its_purpose_in_the_help_and_a_help_of_its_own(capsys):
    for arguments in ([], *([name] for name in COMMANDS)):
        with pytest.raises(SystemExit) as exit_info:
            main([*arguments, "--help"])
        assert exit_info.value.code == 0
        text = " ".join(capsys.readouterr().out.split())
        assert text.startswith(f"usage: {' '.join(['tpack', *arguments])} [-h]")
        if not arguments:
            assert [name for name, (purpose, *_) in COMMANDS.items() if f"{name} {purpose}" not in text] == []


HEAVY = {"tensorflow", "matplotlib", "tqdm", "keras", "h5py"}
LIGHT = {*HEAVY, "numpy", "tabulate", "importlib.metadata", "psutil"}


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], LIGHT),
        (["--version"], LIGHT),
        (["new", "--help"], LIGHT),
        *(([name, "--help"], HEAVY) for name in ("inspect", "plot", "reduce", "launch", "watch", "doctor", "selftest")),
    ],
)
def test_help_loads_only_what_it_needs(arguments, absent):
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
    assert text.startswith(("usage:", "tpack "))
    assert not absent & set(loaded.split())


def test_too_little_memory_is_said(capsys, monkeypatch):
    def fill(path, **options):
        raise MemoryError

    monkeypatch.setattr("tpack.cli.inspect.read_npz", fill)
    assert main(["inspect", "a.npz"]) == 1
    assert capsys.readouterr().err == "tpack inspect: there is not enough memory for its files\n"
