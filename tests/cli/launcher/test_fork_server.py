"""The fork server of an agent: processes that are forks of one that has imported modules."""

import os
import select
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.helpers.launching import assert_gone
from tests.helpers.source import ROOT
from tpack.cli.launcher.fork_server import ForkServer
from tpack.utils.progress import LINE_VARIABLE, open_launcher_line

LIMIT_SECS = 60.0


@pytest.fixture
def server():
    """A server that has imported a module that scripts do not need, and numpy."""
    server = ForkServer(sys.executable, {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}, ["this", "numpy"])
    yield server
    server.close()


def hear(server, is_enough):
    """Take the server's messages until there are enough."""
    deadline = time.monotonic() + LIMIT_SECS
    while not is_enough():
        assert select.select([server], [], [], max(0.0, deadline - time.monotonic()))[0], "the server says nothing"
        assert server.receive(), server.last_words()


def run(server, command, environment=None, directory="/", rank=0, line=None, shows_bar=False):
    """Run a command to its end; return its exit code, its output and its errors."""
    (out, into_out), (err, into_err) = os.pipe(), os.pipe()
    given = [into_out, into_err, *([] if line is None else [os.dup(line)])]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    forked = server.fork(rank, command, variables, str(directory), given, shows_bar=shows_bar)
    hear(server, lambda: forked.poll() is not None)
    with os.fdopen(out) as output, os.fdopen(err) as errors:
        return forked.poll(), output.read(), errors.read()


def python(path, text):
    path.write_text(text, encoding="utf-8")
    return [sys.executable, str(path), "--flag", "1"]


def test_a_fork_is_like_a_new_process(server, tmp_path):
    """All but the modules that are loaded already is as an interpreter has it that was started with the script."""
    script = (
        "import os, signal, sys, threading, __main__\n"
        "loaded = set(sys.modules)\n"
        "print(__name__, sys.argv[1:], os.getcwd(), os.environ['MINE'], __main__.__file__ == sys.argv[0])\n"
        "print([path for path in sys.path])\n"
        "print(os.getsid(0) == os.getpid(), threading.active_count(), os.read(0, 1))\n"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGCHLD))\n"
        "links = {int(each): os.path.realpath(f'/proc/self/fd/{each}') for each in os.listdir('/proc/self/fd')}\n"
        # Some builds of libffi, which ctypes loads, keep their own file open.
        "print(sorted(each for each, file in links.items() if os.path.exists(f'/proc/self/fd/{each}')"
        " and 'libffi' not in file))\n"
        "sys.stderr.write(str('this' in loaded))\n"
        "sys.exit(3)\n"
    )
    command = python(tmp_path / "script.py", script)
    code, output, errors = run(server, command, {"MINE": "7"}, tmp_path)
    assert code == 3
    assert errors == "True"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MINE": "7", "PYTHONUNBUFFERED": "1"}
    fresh = subprocess.run(
        command,
        env=environment,
        cwd=tmp_path,
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )
    assert output == fresh.stdout


def test_a_module_is_run_like_a_script(server, tmp_path):
    (tmp_path / "mine.py").write_text("import sys; print(__name__, sys.argv[1:]); raise ValueError('boo')")
    code, output, errors = run(server, [sys.executable, "-m", "mine", "x"], directory=tmp_path)
    assert (code, output) == (1, "__main__ ['x']\n")
    assert errors.endswith("ValueError: boo\n")


def test_forks_draw_other_random_numbers(server, tmp_path):
    command = python(tmp_path / "draw.py", "import random, numpy; print(random.random(), numpy.random.rand())")
    first, second = (run(server, command)[1].split() for _ in range(2))
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_an_end_by_a_signal_is_reported(server, tmp_path):
    (out, into_out), (err, into_err) = os.pipe(), os.pipe()
    command = python(tmp_path / "wait.py", "import time; print('here', flush=True); time.sleep(1000)")
    forked = server.fork(5, command, dict(os.environ), "/", [into_out, into_err])
    # One that waits for the server is left out, as if the signal had ended it.
    hear(server, lambda: select.select([out], [], [], 0)[0] or server.is_ready)
    assert os.read(out, 4) == b"here"
    assert forked.poll() is None
    forked.send_signal(signal.SIGTERM)
    hear(server, lambda: forked.poll() is not None)
    assert forked.poll() == -signal.SIGTERM
    # A signal to what has ended reaches nobody.
    forked.send_signal(signal.SIGKILL)
    assert run(server, python(tmp_path / "then.py", "print('then')"))[:2] == (0, "then\n")
    for descriptor in (out, err):
        os.close(descriptor)


def test_what_was_not_forked_yet_is_left_out(tmp_path):
    server = ForkServer(sys.executable, {"PYTHONPATH": str(ROOT)}, ["time"])
    (out, into_out), (err, into_err) = os.pipe(), os.pipe()
    forked = server.fork(0, [sys.executable, "never.py"], {}, "/", [into_out, into_err])
    assert not server.is_ready
    forked.send_signal(signal.SIGTERM)
    assert forked.poll() == -signal.SIGTERM
    # Its output has ended.
    assert os.read(out, 1) == os.read(err, 1) == b""
    server.close()
    for descriptor in (out, err):
        os.close(descriptor)


def test_a_directory_that_is_not_there_is_reported(server):
    code, _, errors = run(server, [sys.executable, "x.py"], directory="/nowhere at all")
    assert code == 127
    assert errors.startswith("cannot be started in /nowhere at all: [Errno 2]")


@pytest.mark.parametrize(("shows_bar", "end"), [(True, ""), (False, ":quiet")])
def test_a_fork_has_a_line_to_the_launcher(server, tmp_path, shows_bar, end):
    read_end, write_end = open_launcher_line()
    script = (
        "import os; from tpack.utils.progress import launcher_line, report_phase; report_phase('graph')\n"
        f"print(launcher_line() is not None, os.environ[{LINE_VARIABLE!r}])"
    )
    code, output, errors = run(server, python(tmp_path / "line.py", script), line=write_end, shows_bar=shows_bar)
    assert (code, errors) == (0, "")
    has_bar, value = output.split()
    assert has_bar == str(shows_bar)
    assert value.endswith(f":{os.fstat(write_end).st_ino}{end}")
    assert os.read(read_end, 100) == b'{"phase": "graph"}\n'
    os.close(read_end)
    os.close(write_end)


def test_a_module_that_cannot_be_imported_is_named():
    server = ForkServer(sys.executable, {"PYTHONPATH": str(ROOT)}, ["no_such_module"])
    deadline = time.monotonic() + LIMIT_SECS
    while select.select([server], [], [], max(0.0, deadline - time.monotonic()))[0] and server.receive():
        pass
    assert server.last_words().endswith("ModuleNotFoundError: No module named 'no_such_module'")
    server.close()


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_no_process_survives_the_server(server, tmp_path, how):
    (out, into_out), (err, into_err) = os.pipe(), os.pipe()
    command = python(tmp_path / "wait.py", "import os, time; print(os.getpid(), flush=True); time.sleep(1000)")
    server.fork(0, command, dict(os.environ), "/", [into_out, into_err])
    hear(server, lambda: server.is_ready)
    pid = int(os.read(out, 20))
    assert psutil.Process(pid).ppid() == server.pid
    if how == "killed":
        os.kill(server.pid, signal.SIGKILL)
    server.close()
    assert_gone([pid])
    for descriptor in (out, err):
        os.close(descriptor)
