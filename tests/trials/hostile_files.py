"""Give hostile files to ``tpack inspect``, ``plot``, ``watch``, ``data`` and ``migrate``.

    python -m tests.trials.hostile_files [PART_OF_A_NAME]

Each command must end within a minute of processor time and 8 GiB of addresses, without a traceback of Python, and
must not wait for 30 s without using the processor.
"""

import io
import json
import multiprocessing
import os
import resource
import signal
import socket
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import psutil

# Imported once: each command runs in a copy of this process.
from tpack.cli import inspect, migrate, plot, watch  # noqa: F401
from tpack.cli.main import main as run_command
from tpack.cli.migrating import rewriter  # noqa: F401
from tpack.tfutils import varmanip  # noqa: F401

LIMIT_SECS, LIMIT_BYTES = 60, 8 * 2**30
LIMIT_IDLE_SECS = 30.0
LOOK_SECS = 0.5
DEEP = "[" * 100_000 + "]" * 100_000


def _archive(path: Path, header: bytes, name: str = "a.npy") -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, header)


def _npy(shape: str, dtype: str = "<f8", data: bytes = b"") -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def make(folder: Path) -> dict[str, list[str]]:
    """Write the files; return the commands by name."""
    commands: dict[str, list[str]] = {}

    def add(name: str, *command: str) -> None:
        commands[name] = list(command)

    for part in (_archives, _checkpoints, _runs, _files_of_runs, _scripts):
        part(folder, add)
    return commands


def _sparse(path: Path, size: int) -> None:
    path.touch()
    os.truncate(path, size)


def _archives(folder: Path, add: Callable[..., None]) -> None:
    archives = {
        "terabyte": _npy("(137438953472,)"),
        "negative": _npy("(-5,)"),
        "huge count": _npy("(18446744073709551615, 18446744073709551615)"),
        "objects": _npy("(1,)", "|O", b"cos\nsystem\n(S'touch hacked'\ntR."),
        "deep header": b"\x93NUMPY\x01\x00\xff\xff" + (b"(" * 65534 + b"\n"),
        "text": b"hello",
        "nothing": b"",
    }
    for name, content in archives.items():
        path = folder / f"{name.replace(' ', '_')}.npz"
        _archive(path, content)
        add(f"inspect npz: {name}", "inspect", str(path))
    whole = io.BytesIO()
    np.savez(whole, a=np.arange(100))
    (folder / "cut.npz").write_bytes(whole.getvalue()[:150])
    add("inspect npz: truncated", "inspect", str(folder / "cut.npz"))
    _archive(folder / "nul.npz", _npy("(0,)"), "../../a\x00b.npy")
    add("inspect npz: NUL and a name outside", "inspect", str(folder / "nul.npz"))
    with (
        zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w", force_zip64=True) as member,
    ):
        member.write(_npy("(805306368,)", "|u1"))
        for _ in range(768):
            member.write(bytes(2**20))
    add("inspect npz: bomb of 768 MiB", "inspect", str(folder / "bomb.npz"))
    # Two members of 4 GiB each, by what the directory of the archive says.
    whole = io.BytesIO()
    np.savez(whole, a=np.arange(100), b=np.arange(100))
    content, place = bytearray(whole.getvalue()), 0
    while (place := content.find(b"PK\x01\x02", place + 1)) >= 0:
        content[place + 24 : place + 28] = (2**32 - 2).to_bytes(4, "little")
    (folder / "claims.npz").write_bytes(content)
    add("inspect npz: 8 GiB by its directory", "inspect", str(folder / "claims.npz"))
    _archive(folder / "escapes.npz", _npy("(0,)"), "a\x1b]0;title\x07.npy")
    add("inspect npz: a name that controls the terminal", "inspect", str(folder / "escapes.npz"))
    os.mkfifo(folder / "pipe.npz")
    add("inspect npz: a pipe", "inspect", str(folder / "pipe.npz"))


def _checkpoints(folder: Path, add: Callable[..., None]) -> None:
    os.mkfifo(folder / "model_pipe.index")
    _sparse(folder / "model_sparse.index", 2**40)
    for name in ("pipe", "sparse"):
        add(f"inspect checkpoint: {name} as an index", "inspect", str(folder / f"model_{name}"))
    for name, index in {"empty": b"", "zeros": bytes(1000), "noise": os.urandom(5000), "text": b"x" * 48}.items():
        (folder / f"{name}.index").write_bytes(index)
        (folder / f"{name}.data-00000-of-00001").write_bytes(b"")
        add(f"inspect checkpoint: index of {name}", "inspect", str(folder / name))
    links = folder / "links"
    links.mkdir()
    (links / "checkpoint").symlink_to(links / "checkpoint")
    add("inspect checkpoint: link to itself", "inspect", str(links))
    pointing = folder / "pointing"
    pointing.mkdir()
    (pointing / "checkpoint").write_text('model_checkpoint_path: "../../../../etc/passwd"\n')
    add("inspect checkpoint: path outside", "inspect", str(pointing))
    (folder / "nulpath").mkdir()
    (folder / "nulpath" / "checkpoint").write_bytes(b'model_checkpoint_path: "a\\000b"\n')
    add("inspect checkpoint: NUL", "inspect", str(folder / "nulpath"))
    add("inspect: NUL in the argument's place", "inspect", str(folder / "no" / "file"))
    add("inspect: a folder", "inspect", str(folder / "nothing_there"))


def _runs(folder: Path, add: Callable[..., None]) -> None:
    runs = {
        "deep JSON": DEEP,
        "truncated": '[{"epoch_num": 1, "global_step": 5, "cost"',
        "other kind": '{"a": 1}',
        "numbers": "[1, 2, 3]",
        "huge numbers": json.dumps([{"epoch_num": 1, "global_step": 10**400, "cost": 1e308}]),
        "NaN and text": '[{"epoch_num": 1, "global_step": 1, "cost": NaN}, {"epoch_num": "x", "global_step": null}]',
        "NUL": "\x00" * 1000,
        "texts and lists": json.dumps([{"epoch_num": 1, "global_step": 1, "Throughput (x)": "x", "cost": [1]}]),
        "wide numbers": json.dumps([{"epoch_num": k, "global_step": k, "cost": (-1) ** k * 1.7e308} for k in range(9)]),
        "constant of 1e308": json.dumps([{"epoch_num": k, "global_step": k, "cost": 1e308} for k in range(9)]),
        "many names": json.dumps([{"epoch_num": 1, "global_step": 1, **{f"s{k}": k for k in range(3000)}}]),
        "names that control the terminal": json.dumps([{"epoch_num": 1, "global_step": 1, "\x1b]0;t\x07": 1}] * 2),
        "long int": '[{"epoch_num": 1, "global_step": ' + "9" * 10_000 + ', "cost": 1}]',
    }
    for name, text in runs.items():
        run = folder / f"run_{name.replace(' ', '_')}"
        run.mkdir()
        (run / "stats.json").write_text(text)
        # A run.json that is refused would hide the statistics of others.
        for other in ("run.json", "log.log") if name in ("deep JSON", "truncated", "NUL", "long int") else ():
            (run / other).write_text(text)
        add(f"plot: {name}", "plot", str(run), "--out", str(folder / "plot.png"))
        add(f"plot --html: {name}", "plot", str(run), "--html", "--out", str(folder / "plot.html"))
        add(f"watch: {name}", "watch", str(run), "--once")
    states = {
        "texts": {"progress": {"step": "x", "epoch": None}},
        "NaN": {"progress": {"secs_left": float("nan"), "max_epoch": float("inf")}},
        "other kinds": {"state": ["a"], "pid": 10**30, "began": {}},
        "huge": {"pid": 10**30, "host": socket.gethostname(), "progress": {"step": 10**300, "steps_per_epoch": -1}},
    }
    for name, changed in states.items():
        run = folder / f"state_{name.replace(' ', '_')}"
        run.mkdir()
        whole_state = {"state": "running", "versions": {}, "config": {"a": [None]}, "progress": {}, **changed}
        (run / "run.json").write_text(json.dumps(whole_state))
        (run / "stats.json").write_text('[{"epoch_num": 1, "global_step": 1, "cost": 1}]')
        (run / "log.log").write_text("[11-23 10:00:04 @x.py:1] WRN \x1b[2J text\n" + "x" * 2**26)
        (run / "events.out.tfevents.1").write_bytes(b"\xff" * 1000)
        add(f"watch: state with {name}", "watch", str(run), "--once")
        add(f"plot --html: state with {name}", "plot", str(run), "--html", "--out", str(folder / "plot.html"))


def _files_of_runs(folder: Path, add: Callable[..., None]) -> None:
    endless = folder / "run_links"
    endless.mkdir()
    (endless / "stats.json").symlink_to("/dev/zero")
    (endless / "run.json").symlink_to(endless / "run.json")
    (endless / "again").symlink_to(endless)
    os.mkfifo(endless / "log.log")
    add("plot: links, /dev/zero, a pipe", "plot", str(endless), "--out", str(folder / "plot.png"))
    add("plot --html: links, /dev/zero, a pipe", "plot", str(endless), "--html", "--out", str(folder / "plot.html"))
    sparse = folder / "run_sparse"
    sparse.mkdir()
    for name in ("stats.json", "run.json", "log.log", "events.out.tfevents.1"):
        _sparse(sparse / name, 2**30 if name == "log.log" else 2**40)
    add("plot: sparse files", "plot", str(sparse), "--out", str(folder / "plot.png"))
    add("watch: sparse files", "watch", str(sparse), "--once")
    add("watch: links, /dev/zero, a pipe", "watch", str(endless), "--once")


def _scripts(folder: Path, add: Callable[..., None]) -> None:
    scripts = {
        "deep": "x = " + "(" * 5000 + ")" * 5000,
        "NUL": "import tensorpack\x00\n",
        "long sum": "import tensorpack\nx = " + "+".join(["1"] * 20_000),
        "bytes": None,
        "strange coding": "# -*- coding: nonsense -*-\nimport tensorpack\n",
        "many lines": "import tensorpack\n" * 5_000,
        "branches": "if a:\n    pass\n" + "elif a:\n    pass\n" * 3000,
        "attributes": "x = a" + ".b" * 20_000,
    }
    for name, text in scripts.items():
        path = folder / f"{name.replace(' ', '_')}.py"
        path.write_bytes(os.urandom(5000)) if text is None else path.write_text(text)
        add(f"migrate: {name}", "migrate", str(path))
    tree = folder / "tree"
    tree.mkdir()
    (tree / "loop").symlink_to(tree)
    (tree / "zero.py").symlink_to("/dev/zero")
    (tree / "self.py").symlink_to(tree / "self.py")
    os.mkfifo(tree / "pipe.py")
    _sparse(tree / "sparse.py", 2**40)
    add("migrate: links and a pipe", "migrate", str(tree))


def main() -> int:
    faults = 0
    with tempfile.TemporaryDirectory() as directory:
        commands = make(Path(directory))
        only = "".join(sys.argv[1:2])
        commands = {name: command for name, command in commands.items() if only in name}
        for name, command in commands.items():
            fault = _fault(command, directory)
            faults += bool(fault)
            if fault:
                print(f"{name}: {fault}", flush=True)
        hacked = (Path(directory) / "hacked").exists()
    print(f"{len(commands)} hostile files: {len(commands) - faults} refused or read, {faults} not; code run: {hacked}")
    return int(faults > 0 or hacked)


def _fault(command: list[str], directory: str) -> str:
    told = Path(directory) / "told.txt"
    process = multiprocessing.get_context("fork").Process(target=_run, args=(command, directory, told))
    process.start()
    waits = _waits(process)
    if waits:
        process.kill()
    process.join()
    code, text = process.exitcode or 0, told.read_text(errors="replace")
    if waits:
        return f"WAITS: {text[-300:]}"
    if code == -signal.SIGXCPU:
        return f"STILL RUNNING after {LIMIT_SECS} s of processor time: {text[-300:]}"
    if "Traceback" in text or code < 0:
        return f"code {code}: {' '.join(text.split())[-500:]}"
    if "\x1b" in text:
        return f"CONTROLS THE TERMINAL: {text[-200:]!r}"
    return f"USAGE: {text[-200:]}" if "usage:" in text else f"NOTHING SAID: code {code}" if not text else ""


def _run(command: list[str], directory: str, told: Path) -> None:
    """Run a command in a process that has its modules, whose output goes to a file."""
    descriptor = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(directory)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECS, LIMIT_SECS + 5))
    sys.exit(run_command(command))


def _waits(process: BaseProcess) -> bool:
    """Wait for a process; tell whether it used no processor for a while."""
    used, since = -1.0, time.monotonic()
    while process.is_alive():
        now = sum(psutil.Process(process.pid).cpu_times()[:2])
        if now > used:
            used, since = now, time.monotonic()
        elif time.monotonic() - since > LIMIT_IDLE_SECS:
            return True
        process.join(LOOK_SECS)
    return False


if __name__ == "__main__":
    sys.exit(main())
