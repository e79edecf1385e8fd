"""The metadata in ``setup.py``: version, dependencies, extras and what is packaged."""

import runpy

import pytest

import tpack
from tests.helpers.source import ROOT
from tpack.version import __version__


@pytest.fixture
def metadata(monkeypatch):
    """The keyword arguments that ``setup.py`` gives to ``setup``."""
    given = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", given.update)
    runpy.run_path("setup.py")
    return given


def test_version_is_the_same_everywhere(metadata):
    assert metadata["version"] == tpack.__version__ == __version__
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_package_is_packaged(metadata):
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "tpack").rglob("*.py")}
    assert set(metadata["packages"]) == folders
    assert metadata["package_data"] == {
        "": ["*.pyi"],
        "tpack": ["py.typed"],
        "tpack.cli.runs": ["*.css", "*.html", "*.js"],
    }
    assert (ROOT / "tpack" / "py.typed").exists()


def test_hard_dependencies_are_the_seven(metadata):
    names = ["tensorflow>=2.16,<2.24", "numpy", "cloudpickle", "msgpack", "tabulate", "tqdm", "psutil"]
    assert metadata["install_requires"] == names
    assert metadata["python_requires"] == ">=3.10"


def test_extras_are_those_that_errors_name(metadata):
    extras = metadata["extras_require"]
    wanted = "vision lmdb hdf5 zmq gpu plot ray mlflow wandb comet notebook remote s3 gcs migrate examples test docs"
    assert set(extras) == set(wanted.split())
    assert extras["examples"] == ["scikit-learn"]
    # Of the same versions as the dependency itself.
    (tensorflow,) = (each for each in metadata["install_requires"] if each.startswith("tensorflow"))
    assert extras["gpu"] == [tensorflow.replace("tensorflow", "tensorflow[and-cuda]"), "nvidia-ml-py"]


def test_test_extra_brings_the_tools_that_the_script_runs(metadata):
    names = {requirement.split("=")[0].rstrip(">") for requirement in metadata["extras_require"]["test"]}
    assert {"ruff", "mypy", "pytest", "pytest-xdist", "pytest-timeout"} <= names
