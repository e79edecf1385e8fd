"""What the trial of outside code changes in programs, counts as their steps, and reports."""

import ast
import json
import subprocess

import pytest
import tensorflow.compat.v1 as tf

from tests.trials.outside_code import add_to_report, commit_of, has_trained, migrated_copy, shown
from tests.trials.outside_counting import StepCounter, trains
from tests.trials.outside_recipe import Edit
from tests.trials.outside_rewriting import rewrite, rewrite_folder

LINES = [
    ("import tensorflow as tf", "import tensorflow as tf"),
    ("from tensorpack import *", "from tensorpack import *"),
    ("x = y.tostring()", "x = y.tobytes()"),
    ("for k in d.iteritems(): pass", "for k in d.items(): pass"),
]


@pytest.mark.parametrize(("line", "wanted"), LINES)
def test_only_what_python_and_numpy_removed_is_rewritten(line, wanted):
    text, counts = rewrite(f"{line}\n")
    assert text.splitlines()[-1] == wanted
    assert sum(counts.values()) == (line != wanted)


def test_python_2_becomes_python_3(tmp_path):
    source = "try:\n\tprint 'loss', 0.5\n\tprint\nexcept ValueError, error:\n    print error, 0777\nprint('a'), 'b'\n"
    (tmp_path / "old.py").write_text(source)

    counts = rewrite_folder(tmp_path)

    text = (tmp_path / "old.py").read_text()
    ast.parse(text)
    assert "print('loss', 0.5)" in text
    assert "except ValueError as error:" in text
    assert counts == {"Python 2": 6}


def test_an_edit_that_finds_nothing_is_an_error(tmp_path):
    (tmp_path / "train.py").write_text("epochs = 90\n")
    assert Edit("*.py", r"epochs = \d+", "epochs = 1").apply(tmp_path) == 1
    assert (tmp_path / "train.py").read_text() == "epochs = 1\n"
    with pytest.raises(LookupError, match="has nothing like"):
        Edit("*.py", r"epochs = \d\d", "epochs = 1").apply(tmp_path)


@pytest.mark.parametrize("use_resource", [True, False])
def test_steps_are_runs_that_change_trainable_variables(graph, use_resource):
    variable = tf.get_variable("v", [2], use_resource=use_resource)
    average = tf.get_variable("a", [2], trainable=False, use_resource=use_resource)
    loss = tf.reduce_sum(tf.square(variable))
    saver = tf.train.Saver()
    with tf.control_dependencies([tf.assign(variable, tf.stop_gradient(variable) * 0.5)]):
        by_hand = tf.identity(loss)

    runs = {
        tf.train.GradientDescentOptimizer(0.1).minimize(loss).name: True,
        tf.train.AdamOptimizer(0.1).minimize(loss).name: True,
        by_hand.name: True,
        loss.name: False,
        tf.global_variables_initializer().name: False,
        tf.assign(average, [1.0, 2.0]).op.name: False,
        saver.saver_def.restore_op_name: False,
    }
    assert {name: trains(graph, [name]) for name in runs} == runs


def test_a_counter_tells_of_losses_that_are_no_numbers(graph):
    seen = []
    counter = StepCounter(lambda counter: seen.append((counter.num_steps, counter.num_not_finite)))
    variable = tf.get_variable("v", [])
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(variable)

    counter.look_at(graph, [train_op.name], [None, 0.5])
    counter.look_at(graph, [variable.name], [0.5])
    counter.look_at(graph, [train_op.name], [None, float("nan")])

    assert seen == [(1, 0), (2, 1)]


def test_a_folder_is_migrated_once_in_a_copy(tmp_path):
    folder = tmp_path / "owner+name"
    folder.mkdir()
    (folder / "train.py").write_text("import tensorflow as tf\ntf.contrib.slim.conv2d\n")

    copy = migrated_copy(folder, tmp_path / "migrated")

    assert (folder / "train.py").read_text().startswith("import tensorflow as tf")
    assert (copy / "train.py").read_text().startswith("import tpack.tf1 as tf")
    assert "changed 1" in (copy / "tpack_migrate.txt").read_text()
    (copy / "train.py").write_text("")
    assert (migrated_copy(folder, tmp_path / "migrated") / "train.py").read_text() == ""


def test_the_commit_of_a_folder_is_that_of_its_checkout(tmp_path):
    assert commit_of(tmp_path) == ""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "A"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)

    assert len(commit_of(tmp_path)) == 40


def test_a_row_has_a_cell_for_each_way(tmp_path):
    outcome = {"steps": 4, "secs": 9, "not_finite": 0, "ended": "by itself", "error": "", "changes": {}}
    failed = {**outcome, "steps": 0, "ended": "by an error", "error": "ImportError: no | here"}
    row = {
        "name": "a/b",
        "trains": "a net",
        "wanted": 4,
        "migrate": failed,
        "forced": {**outcome, "changes": {"numpy": 1}},
    }
    path = tmp_path / "report.json"

    add_to_report(path, {**row, "wanted": 5})
    add_to_report(path, row)

    assert json.loads(path.read_text()) == [row]
    assert [has_trained(row, way) for way in ("migrate", "forced")] == [False, True]
    assert shown(row) == (
        "| a/b | a net | 0 steps in 9 s: by an error ImportError: no / here | 4 steps in 9 s (numpy) |"
    )
