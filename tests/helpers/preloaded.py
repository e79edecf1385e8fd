"""Run scripts that need TensorFlow without waiting for its import each time: forks of a process that has loaded it.

`run` is ``subprocess.run`` for a Python script. The first call in a process starts a server, which imports TensorFlow
and does nothing else with it, so that it has no session and no thread of one; each call then forks it. The fork becomes
the script: its arguments, environment, directory and output are its own, and it ends as an interpreter ends. A server
that has loaded more than TensorFlow is a fork of the first one, too.

What is different from a fresh process: TensorFlow read its environment when the server started, and its import takes no
time. Tests of imports, signals and kills start processes of their own.
"""

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]

_FIRST = "tensorflow.compat.v1"
_servers: list[int] = []


def run(
    script: Path,
    arguments: Sequence[Any] = (),
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    module: str = _FIRST,
) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own and return its exit code and what it printed.

    Args:
        script: The file.
        arguments: Its arguments, as text or what becomes text.
        env: Its environment; by default that of the test, in which tpack is found.
        cwd: Its directory; by default that of the test.
        module: What else is loaded already, such as a module that imports all that the script does.

    Raises:
        RuntimeError: The server has ended.
    """
    request = {
        "argv": [str(script), *map(str, arguments)],
        "env": dict(env or {**os.environ, "PYTHONPATH": str(ROOT)}),
        "cwd": str(cwd or Path.cwd()),
    }
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        channel = _server(module)
        socket.send_fds(channel, [json.dumps(request).encode() + b"\n"], [out.fileno(), err.fileno()])
        answer = channel.makefile().readline()
        if not answer:
            raise RuntimeError("the server of preloaded processes has ended")
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(request["argv"], int(answer), out.read(), err.read())


def cpu_secs() -> float:
    """Return the processor time of the servers of this process and of all scripts that ended in them."""
    ticks = 0
    for pid in _servers:
        stat = Path(f"/proc/{pid}/stat")
        # Of this process and its children that have ended, in the kernel and outside: numbers 14 to 17. Names may hold
        # spaces, and end with the last bracket.
        ticks += sum(map(int, stat.read_text().rpartition(")")[2].split()[11:15])) if stat.exists() else 0
    return ticks / os.sysconf("SC_CLK_TCK")


@cache
def _server(module: str) -> socket.socket:
    """Start a server and return the channel to it; it ends when the channel does."""
    here, there = socket.socketpair()
    if module != _FIRST:
        first = _server(_FIRST)
        socket.send_fds(first, [json.dumps({"module": module}).encode() + b"\n"], [there.fileno()])
        there.close()
        _servers.append(int(first.makefile().readline()))
        atexit.register(here.close)
        return here
    command = [sys.executable, "-m", "tests.helpers.preloaded", str(there.fileno())]
    process = subprocess.Popen(command, cwd=ROOT, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL)
    there.close()
    _servers.append(process.pid)
    atexit.register(_end, here, process)
    return here


def _end(channel: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    channel.close()
    process.wait()


def _serve(channel: socket.socket) -> list[str]:
    """Answer requests until there are no more, and exit; return, with what it is to run, in each fork."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 1 << 20, 2)
        if not message:
            sys.exit()
        while not message.endswith(b"\n"):
            message += channel.recv(1 << 20)
        request = json.loads(message)
        pid = os.fork()
        if not pid and "module" in request:
            channel.close()
            channel = socket.socket(fileno=descriptors[0])
            importlib.import_module(request["module"])
            gc.freeze()
            continue
        if not pid:
            channel.close()
            return _take_place(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if "module" in request:
            channel.sendall(f"{pid}\n".encode())
            continue
        _, status = os.waitpid(pid, 0)
        channel.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _take_place(request: dict[str, Any], descriptors: Sequence[int]) -> list[str]:
    """Give this process the output, directory and environment of a request, and return its arguments."""
    for own, given in zip((1, 2), descriptors, strict=True):
        os.dup2(given, own)
        os.close(given)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    return list(request["argv"])


def _become(argv: list[str]) -> None:
    """Run a script as if the interpreter had been started with it."""
    sys.argv = argv
    # Where ``python -m`` has put the directory of the server.
    sys.path[0] = os.path.dirname(os.path.abspath(argv[0]))
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    random.seed()
    np.random.seed()
    runpy.run_path(argv[0], run_name="__main__")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    importlib.import_module(_FIRST)
    # What is loaded stays; a collection in a fork that looked at all of it would copy the memory that it lies in.
    gc.freeze()
    script = _serve(socket.socket(fileno=int(sys.argv[1])))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _become(script)
