"""``tpack doctor``: versions, devices, links, memory and settings, as one block for a bug report.

TensorFlow is loaded in another process with a timeout, since many reports are about installations that fail or hang.
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import psutil
from tabulate import tabulate

from tpack.utils.python_child import ChildError, python_child, python_command
from tpack.version import __version__

_LINKS_SECS = 20.0
_RELEVANT = re.compile(
    # Variables of Terraform begin with TF_ too.
    r"(CUDA|CUDNN|GLOO|KMP|MALLOC|MKL|NCCL|NVIDIA|OMP|OPENBLAS|RAY|SLURM|TF(?!_CLI|_VAR)|TPACK|XLA)_\w+|KERAS_BACKEND|LD_PRELOAD|"
    "LD_LIBRARY_PATH|PYTHONPATH|RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|TF_CONFIG"
)
_SECRET = re.compile("SECRET|TOKEN|KEY|PASS|CREDENTIAL")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = (
        "Print versions, devices, links between GPUs, memory and environment variables, for a bug report."
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, help="seconds for loading TensorFlow (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the block; return the exit code: 0, or 1 if TensorFlow cannot be loaded."""
    report, failure = _ask_tensorflow(options.timeout)
    parts = [report or _without_tensorflow(failure), tabulate(_memory(), tablefmt="plain"), *_links()]
    settings = [(name, os.environ[name]) for name in sorted(os.environ) if _RELEVANT.fullmatch(name)]
    shown = [(name, "(not shown)" if _SECRET.search(name) else value) for name, value in settings]
    parts.append(tabulate(shown, tablefmt="plain", disable_numparse=True) or "No environment variable that matters.")
    sys.stdout.write("\n\n".join(["```", *parts, "```"]).replace("```\n\n", "```\n").replace("\n\n```", "\n```") + "\n")
    return 1 if failure else 0


def _ask_tensorflow(timeout_secs: float) -> tuple[str, str]:
    """Return the report of a process that loads TensorFlow, and its failure; one of them is empty."""
    try:
        answer = python_child(python_command(__name__, "report_tensorflow"), timeout_secs=timeout_secs)
    except ChildError as error:
        return "", f"it cannot be loaded, {error} (--timeout {timeout_secs:g})"
    return f"{answer['environment']}\nDevices: {', '.join(answer['devices'])}\n{answer['names']}", ""


def report_tensorflow() -> None:
    """Load TensorFlow, and print its versions and devices as JSON, in a process of its own."""
    devices = importlib.import_module("tensorflow").config.list_physical_devices()
    environment = importlib.import_module("tpack.tfutils.collect_env").collect_env_info()
    names = [device.name.removeprefix("/physical_device:") for device in devices]
    answer = {"environment": environment, "devices": names, "names": _missing_names()}
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


def _missing_names() -> str:
    """Return a line for each feature of which the installed TensorFlow lacks private names, or one for none."""
    table = importlib.import_module("tpack.compat.private_names")
    lines = [
        f"{feature.name}, without {', '.join(names)}: {feature.way_out or 'an error says so'}"
        for feature, names in table.missing_features()
    ]
    if not lines:
        return f"Private names of TensorFlow: all {len(table.FEATURES)} features have theirs"
    return "\n".join([f"Private names of TensorFlow that are missing (tested are {table.TESTED}):", *lines])


def _without_tensorflow(failure: str) -> str:
    """Return the facts about the installation that are known without loading it."""
    rows = [("tpack", __version__), ("Python", sys.version.replace("\n", "")), ("Platform", platform.platform())]
    for package in ("tensorflow", "numpy", "keras", "protobuf"):
        try:
            rows.append((package, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            rows.append((package, "not installed"))
    return tabulate([*rows, ("TensorFlow", failure)], tablefmt="plain", disable_numparse=True)


def _memory() -> Iterator[tuple[str, str]]:
    memory = psutil.virtual_memory()
    yield "Memory", f"{memory.total / 2**30:.1f} GiB, {memory.available / 2**30:.1f} GiB of it available"
    if os.path.isdir("/dev/shm"):
        shared = shutil.disk_usage("/dev/shm")
        yield "/dev/shm", f"{shared.total / 2**30:.1f} GiB, {shared.free / 2**30:.1f} GiB of it free"


def _links() -> Iterator[str]:
    """Yield the links between GPUs, as NVIDIA's command draws them, if it exists."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return
    unknown = "The links between GPUs are not known: nvidia-smi"
    try:
        done = subprocess.run([command, "topo", "-m"], capture_output=True, text=True, timeout=_LINKS_SECS, check=False)
    except subprocess.TimeoutExpired:
        yield f"{unknown} took more than {_LINKS_SECS:g} s."
        return
    links = re.sub("\x1b\\[[0-9;]*m", "", done.stdout).strip()
    yield f"{unknown} ended with exit code {done.returncode}." if done.returncode else links
