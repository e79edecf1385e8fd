"""Give hostile files to ``tpack inspect``, ``plot``, ``watch``, ``data`` and ``migrate``.

    python -m tests.trials.hostile_files [PART_OF_A_NAME]

Each command must end within a minute and 8 GiB of addresses, without a traceback of Python.
"""

import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

LIMIT_SECS, LIMIT_BYTES = 60, 8 * 2**30
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
    runs = {
        "deep JSON": DEEP,
        "truncated": '[{"epoch_num": 1, "global_step": 5, "cost"',
        "other kind": '{"a": 1}',
        "numbers": "[1, 2, 3]",
        "huge numbers": json.dumps([{"epoch_num": 1, "global_step": 10**400, "cost": 1e308}]),
        "NaN and text": '[{"epoch_num": 1, "global_step": 1, "cost": NaN}, {"epoch_num": "x", "global_step": null}]',
        "NUL": "\x00" * 1000,
        "long int": '[{"epoch_num": 1, "global_step": ' + "9" * 10_000 + ', "cost": 1}]',
    }
    for name, text in runs.items():
        run = folder / f"run_{name.replace(' ', '_')}"
        run.mkdir()
        (run / "stats.json").write_text(text)
        (run / "run.json").write_text(text)
        (run / "log.log").write_text(text)
        add(f"plot: {name}", "plot", str(run), "--out", str(folder / "plot.html"))
        add(f"watch: {name}", "watch", str(run), "--once")
    endless = folder / "run_links"
    endless.mkdir()
    (endless / "stats.json").symlink_to("/dev/zero")
    (endless / "run.json").symlink_to(endless / "run.json")
    (endless / "again").symlink_to(endless)
    os.mkfifo(endless / "log.log")
    add("plot: links, /dev/zero, a pipe", "plot", str(endless), "--out", str(folder / "plot.html"))
    add("watch: links, /dev/zero, a pipe", "watch", str(endless), "--once")
    scripts = {
        "deep": "x = " + "(" * 5000 + ")" * 5000,
        "NUL": "import tensorpack\x00\n",
        "long sum": "import tensorpack\nx = " + "+".join(["1"] * 20_000),
        "bytes": None,
        "strange coding": "# -*- coding: nonsense -*-\nimport tensorpack\n",
        "many lines": "import tensorpack\n" * 20_000,
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
    add("migrate: links and a pipe", "migrate", str(tree))
    return commands


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
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))

    try:
        done = subprocess.run(
            [sys.executable, "-m", "tpack", *command],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECS,
            preexec_fn=limit,
            stdin=subprocess.DEVNULL,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"STILL RUNNING after {LIMIT_SECS} s"
    if "Traceback" in done.stderr or done.returncode < 0:
        return f"code {done.returncode}: {' '.join(done.stderr.split())[-500:]}"
    if "usage:" in done.stderr:
        return f"USAGE: {done.stderr[-200:]}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
