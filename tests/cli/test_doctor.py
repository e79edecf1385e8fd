"""The block for a bug report, from an installation that works and from ones that do not."""

import importlib.metadata
import os

import pytest
import tensorflow as tf

from tpack.cli import doctor
from tpack.cli.main import main
from tpack.compat import private_names
from tpack.utils.python_child import ChildError
from tpack.version import __version__


def test_an_installation_that_works_is_told(monkeypatch, capsys):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    monkeypatch.setenv("TPACK_SECRET", "hidden")
    monkeypatch.setenv("UNRELATED", "unrelated")
    assert main(["doctor"]) == 0
    printed, errors = capsys.readouterr()
    words = " ".join(printed.split())
    for told in (f"tpack {__version__}", f"TensorFlow {tf.version.VERSION}", "Devices: CPU:0", "GiB of it available"):
        assert told in words
    assert f"Private names of TensorFlow: all {len(private_names.FEATURES)} features have theirs" in words
    assert "TF_CPP_MIN_LOG_LEVEL 1" in words
    assert "TPACK_SECRET (not shown)" in words
    assert "hidden" not in words
    assert "UNRELATED" not in words
    assert printed.startswith("```\n")
    assert printed.endswith("\n```\n")
    assert errors == ""


def test_private_names_that_are_missing_are_told_with_what_happens(monkeypatch):
    way, none = private_names.FEATURES[0], next(each for each in private_names.FEATURES if not each.way_out)
    monkeypatch.setattr(
        private_names, "missing_features", lambda: [(way, ("Graph._names_in_use",)), (none, ("a", "b"))]
    )
    assert doctor._missing_names().splitlines() == [
        f"Private names of TensorFlow that are missing (tested are {private_names.TESTED}):",
        "copied towers, without Graph._names_in_use: towers are built, as by tower_building='build'",
        f"{none.name}, without a, b: an error says so",
    ]


def broken(*_, **__):
    raise ChildError("exit code 1: ImportError: libcudart.so is missing")


def hanging(*_, timeout_secs):
    raise ChildError(f"killed after {timeout_secs:g} s")


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (broken, "it cannot be loaded, exit code 1: ImportError: libcudart.so is missing"),
        (hanging, "it cannot be loaded, killed after 7 s (--timeout 7)"),
    ],
)
def test_an_installation_that_does_not_is_told_too(monkeypatch, capsys, run, told):
    monkeypatch.setattr(doctor, "python_child", run)
    assert main(["doctor", "--timeout", "7"]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert f"TensorFlow {told}" in printed
    assert f"tensorflow {importlib.metadata.version('tensorflow')}" in printed
    assert "GiB of it available" in printed


@pytest.mark.parametrize(("exit_code", "told"), [(0, "GPU0 X NV18"), (3, "nvidia-smi ended with exit code 3")])
def test_links_are_those_that_the_driver_tells(monkeypatch, tmp_path, capsys, exit_code, told):
    command = tmp_path / "nvidia-smi"
    command.write_text(f"#!/bin/sh\nprintf '\\033[4mGPU0\\033[0m X NV18\\n'\nexit {exit_code}\n", encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(doctor, "_ask_tensorflow", lambda _: ("told", ""))
    assert main(["doctor"]) == 0
    assert told in capsys.readouterr().out
