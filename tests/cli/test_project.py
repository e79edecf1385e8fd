"""Projects: made, trained, resumed, and refused in words."""

import json

import pytest
import tensorflow.compat.v1 as tf

from tpack.cli import project
from tpack.cli.main import main

CONFIG = {"model": {"width": 4, "rate": 0.1, "kind": "deep"}, "steps": None, "is_fast": True}


def test_a_new_project_trains_and_resumes(tmp_path, monkeypatch):
    assert main(["new", str(tmp_path / "mine")]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    texts = [path.read_text(encoding="utf-8") for path in (tmp_path / "mine").iterdir()]
    assert sum(len(text.splitlines()) for text in texts) < 100
    sys_path = list(project.sys.path)
    try:
        for arguments in (["--set", "train.max_epoch=2"], ["--set", "train.max_epoch=6", "--resume", "--towers", "2"]):
            with tf.Graph().as_default():
                assert main(["train", "project.py", *arguments]) == 0
    finally:
        project.sys.path[:] = sys_path
    stats = json.loads((tmp_path / "mine" / "train_log" / "project" / "stats.json").read_text(encoding="utf-8"))
    assert [entry["epoch_num"] for entry in stats] == [1, 2, 3, 4, 5, 6]
    assert stats[-1]["validation_accuracy"] > 0.9


def test_help_says_what_a_new_project_is(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["new", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert main(["new", str(tmp_path / "mine")]) == 0
    made = " and ".join(path.name for path in sorted((tmp_path / "mine").iterdir()))
    assert f"Make a project that trains: {made}, with a small model" in told


def test_the_test_of_a_new_project_passes(tmp_path, monkeypatch):
    assert main(["new", str(tmp_path / "mine")]) == 0
    monkeypatch.syspath_prepend(tmp_path / "mine")
    monkeypatch.delitem(project.sys.modules, "project", raising=False)
    names = project.runpy.run_path(str(tmp_path / "mine" / "test_project.py"))
    names["test_data_are_what_the_model_takes"]()
    project.sys.modules.pop("project")


def test_settings_are_changed_in_a_copy():
    settings = ["model.width=8", "model.rate=1", "model.kind=5", "steps=7", "is_fast=False"]
    changed = project.with_settings(CONFIG, settings)
    assert changed == {"model": {"width": 8, "rate": 1.0, "kind": "5"}, "steps": 7, "is_fast": False}
    assert CONFIG["model"]["width"] == 4


NAMES = "expected one of model.width, model.rate, model.kind, steps, is_fast"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.widht=8", NAMES),
        ("model=8", NAMES),
        ("steps.more=8", NAMES),
        ("model.width", NAMES),
        ("model.width=wide", "expected a value of the type of 4"),
        ("model.width=8.5", "expected a value of the type of 4"),
        ("is_fast=1", "expected a value of the type of True"),
    ],
)
def test_settings_that_are_not_there_are_refused(setting, message):
    with pytest.raises(project.ConfigError, match=f"--set got {setting}: {message}"):
        project.with_settings(CONFIG, [setting])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new", "."], "'.', which is not empty: expected a new directory"),
        (["train", "none.py"], "file got 'none.py': expected a file"),
        (
            ["train", "empty.py"],
            "'empty.py' is not a project for this command: expected a dict CONFIG, and a function train_arguments",
        ),
        (["train", "wrong.py"], "train_arguments of 'wrong.py' returned an object of int: expected a dict"),
        (
            ["train", "empty.py", "--trainer", "simple", "--towers", "2"],
            "--towers got 2: expected 1 for the simple trainer",
        ),
    ],
)
def test_what_cannot_work_is_refused(tmp_path, monkeypatch, capsys, arguments, message):
    (tmp_path / "empty.py").touch()
    (tmp_path / "wrong.py").write_text("CONFIG = {}\ntrain_arguments = len\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(project.sys.path))
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
