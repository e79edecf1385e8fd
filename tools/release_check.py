"""Check of a release before its tag: built from what is committed, looked at, installed and trained with.

    python -m tools.release_check [--python PYTHON...] [--keep DIRECTORY]
    python -m tools.release_check --notes

The wheel and the sdist are built from an export of HEAD; ``twine`` reads their metadata, ``cffconvert`` the citation,
``check-jsonschema`` the forms for issues. Each is then installed with each PYTHON (default: this one) in an
environment of its own, where a program outside of the tree trains two steps on two towers, ``pip check`` and
``tpack doctor`` run. ``--notes`` prints what the changelog says of this version, for the tag. The exit code is 1 if
something is wrong.
"""

import argparse
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from tpack.version import __version__

ROOT = Path(__file__).resolve().parents[1]
TOOLS = {"build": ["build", "twine"], "citation": ["cffconvert"], "forms": ["check-jsonschema"]}
# What users and packagers look for beside the code.
IN_WHEEL = ("tpack/__init__.pyi", "tpack/py.typed", "tpack/cli/runs/page.html", "/licenses/LICENSE", "/licenses/NOTICE")
IN_SDIST = ("LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "SECURITY.md", "CITATION.cff", "tpack/__init__.pyi")
NOT_IN_SDIST = ("tests/", "tools/", "docs/")

PROGRAM = """
import numpy as np
import tensorflow.compat.v1 as tf
import tpack

class Model(tpack.ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 3], tf.float32, "x")]

    def build_graph(self, x):
        return tf.reduce_mean(tf.square(tf.matmul(x, tf.get_variable("W", [3, 1])) - 1.0), name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(0.1)

config = tpack.TrainConfig(
    model=Model(), dataflow=(np.ones([16, 3], np.float32),), batch_size=8, steps_per_epoch=2, max_epoch=1, log_dir="run"
)
tpack.launch_train_with_config(config, tpack.SyncMultiGPUTrainerReplicated(2))
assert "site-packages" in tpack.__file__, tpack.__file__
print("trained with", tpack.__version__, tf.__version__)
"""


def notes(changelog: str, version: str) -> str:
    """Return what a changelog says of a version.

    Args:
        changelog: The text, in the form of Keep a Changelog.
        version: Such as ``0.9.0``.

    Raises:
        ValueError: The changelog has no section of this version, or an empty one.
    """
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ValueError(f"CHANGELOG.md has nothing on {version}: expected a section '## [{version}] - DATE'")
    return found[1].strip()


def faults(wheel: list[str], sdist: list[str]) -> list[str]:
    """Return what is missing, or too much, in the names of the files of a wheel and of an sdist."""
    inside = [name.partition("/")[2] for name in sdist]
    return [
        *(f"the wheel has no {name}" for name in IN_WHEEL if not any(file.endswith(name) for file in wheel)),
        *(f"the wheel has {name}" for name in wheel if not re.match(r"tpack(-[^/]+\.dist-info)?/", name)),
        *(f"the sdist has no {name}" for name in IN_SDIST if name not in inside),
        *(f"the sdist has {name}" for name in inside if name.startswith(NOT_IN_SDIST)),
    ]


def run(command: list[str], directory: Path) -> str:
    """Run a command, and return what it printed; an error of it is one of the check.

    Raises:
        ValueError: It failed.
    """
    print("+", " ".join(command), flush=True)
    done = subprocess.run(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise ValueError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def environment(directory: Path, python: str, *requirements: str) -> Path:
    """Make a virtual environment with packages; return the folder of its programs."""
    # The pip of this interpreter serves all: a copy in each environment takes longer than what is installed by it.
    run([python, "-m", "venv", "--without-pip", str(directory)], directory.parent)
    run([*pip_of(directory), "install", "-q", "--no-compile", *requirements], directory.parent)
    return directory / "bin"


def pip_of(directory: Path) -> list[str]:
    """Return the command of pip for an environment."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(directory)]


def build(directory: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist of HEAD, look at both and at the files for GitHub; return their paths.

    Raises:
        ValueError: Something in them is not as it should be.
    """
    tree = directory / "tree"
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(tree, filter="data")
    programs = {name: environment(directory / name, sys.executable, *needs) for name, needs in TOOLS.items()}
    run([str(programs["build"] / "python"), "-m", "build", "--outdir", str(directory / "dist")], tree)
    (wheel,), (sdist,) = (list((directory / "dist").glob(kind)) for kind in ("*.whl", "*.tar.gz"))
    print(run([str(programs["build"] / "twine"), "check", "--strict", str(wheel), str(sdist)], tree))
    print(run([str(programs["citation"] / "cffconvert"), "--validate"], tree))
    forms = sorted(str(path) for path in (tree / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
    check = [str(programs["forms"] / "check-jsonschema"), "--builtin-schema"]
    print(run([*check, "vendor.github-issue-forms", *forms], tree))
    print(run([*check, "vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"], tree))
    with zipfile.ZipFile(wheel) as file, tarfile.open(sdist) as tar:
        found = faults(file.namelist(), [member.name for member in tar.getmembers() if member.isfile()])
    if found or not wheel.name.startswith(f"tpack-{__version__}-"):
        raise ValueError("; ".join([wheel.name, *found]))
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes; {sdist.name}: {sdist.stat().st_size:,} bytes", flush=True)
    return wheel, sdist


def install_and_train(directory: Path, python: str, package: Path) -> str:
    """Install a package in an environment of its own, and train two steps there; return what that printed."""
    directory.mkdir()
    began = time.monotonic()
    programs = environment(directory / "venv", python, str(package))
    (directory / "program.py").write_text(PROGRAM, encoding="utf-8")
    # Isolated from this tree: no PYTHONPATH, and not the folder of the program.
    trained = run([str(programs / "python"), "-I", "program.py"], directory).splitlines()[-1]
    run([*pip_of(directory / "venv"), "check"], directory)
    run([str(programs / "tpack"), "doctor"], directory)
    version = run([str(programs / "python"), "--version"], directory).strip()
    return f"ok   {package.name} on {version}: {trained} ({time.monotonic() - began:.0f} s)"


def check(directory: Path, pythons: list[str]) -> bool:
    """Build, install and train; print a line for each, and return whether all is right."""
    try:
        notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), __version__)
        packages = build(directory)
    except ValueError as error:
        print(f"FAIL {error}")
        return False
    is_right = True
    # Each interpreter and each package soon, then the other pairs.
    pairs = [(python, packages[(at + turn) % 2]) for turn in range(2) for at, python in enumerate(pythons)]
    for number, (python, package) in enumerate(pairs):
        try:
            print(install_and_train(directory / f"install{number}", python, package), flush=True)
        except ValueError as error:
            is_right = False
            print(f"FAIL {package.name} on {python}: {error}", flush=True)
    return is_right


def main() -> int:
    """Check, or print the notes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters to install with")
    parser.add_argument("--keep", type=Path, help="a new directory for all that is built (default: a temporary one)")
    parser.add_argument("--notes", action="store_true", help="print the notes of this version, and check nothing")
    options = parser.parse_args()
    if options.notes:
        print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), __version__))
        return 0
    if options.keep:
        options.keep.mkdir(parents=True)
        return 0 if check(options.keep.resolve(), options.python) else 1
    with tempfile.TemporaryDirectory(prefix="release") as directory:
        return 0 if check(Path(directory), options.python) else 1


if __name__ == "__main__":
    sys.exit(main())
