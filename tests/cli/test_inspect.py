"""``tpack inspect`` on checkpoints and .npz files."""

import os
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers.checkpoints import save_checkpoint
from tpack.cli import inspect
from tpack.cli.inspect import _describe, _max_difference, _moments
from tpack.cli.main import main

VALUES = {
    "conv0/W": np.array([[1.0, 3.0], [5.0, 7.0]], "float32"),
    "half": np.full(2000, 300.0, "float16"),
    "global_step": np.array(7, "int64"),
}


def rows(text):
    """Return the lines of the table, each split at two or more spaces."""
    lines = text.split("\n\n")[0].splitlines()[2:]
    return {line.split()[0]: line.split()[1:] for line in lines}


@pytest.mark.parametrize("kind", ["checkpoint", "npz"])
def test_variables_are_described(tmp_path, capsys, kind):
    path = save_checkpoint(tmp_path, VALUES) if kind == "checkpoint" else str(tmp_path / "values.npz")
    if kind == "npz":
        np.savez(path, **VALUES)
    assert main(["inspect", path]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0].split() == ["name", "shape", "dtype", "mean", "std", "size"]
    found = rows(text)
    assert list(found) == ["conv0/W", "global_step", "half"]
    assert found["conv0/W"] == ["[2,", "2]", "float32", "4", "2.236", "16", "B"]
    assert found["half"] == ["[2000]", "float16", "300", "0", "3.9", "KiB"]
    assert found["global_step"] == ["[]", "int64", "7", "0", "8", "B"]
    assert text.endswith("\n\n3 variable(s) with 2,005 elements, 3.9 KiB\n")


def test_what_has_no_moments_has_none():
    found = rows(_describe({"empty": np.zeros((0, 2)), "name": np.array("text"), "nan": np.array([np.nan, 1.0])}))
    assert found["empty"] == ["[0,", "2]", "float64", "0", "B"]
    assert found["name"] == ["[]", "str128", "16", "B"]
    assert found["nan"] == ["[2]", "float64", "nan", "nan", "16", "B"]


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "bool", "uint8"])
def test_moments_of_parts_are_those_of_the_whole(monkeypatch, rng, dtype):
    values = (rng.normal(size=(7, 11, 13)) * 50).astype(dtype)
    monkeypatch.setattr(inspect, "_BLOCK_SIZE", 10)
    for array in (values, np.asfortranarray(values), values[::2, :, 1:]):
        wide = array.astype(np.float64)
        assert _moments(array) == (f"{wide.mean():.4g}", f"{wide.std():.4g}")
    changed = values.copy()
    changed[6, 10, 12] = not values[6, 10, 12] if dtype == "bool" else values[6, 10, 12] + 1
    assert _max_difference(values, np.asfortranarray(changed)) == 1
    assert _max_difference(values, np.asfortranarray(values)) == 0


def test_memory_beside_the_arrays_does_not_grow_with_them(tmp_path, monkeypatch):
    monkeypatch.setattr(inspect, "_BLOCK_SIZE", 1 << 14)
    np.savez_compressed(tmp_path / "zeros.npz", a=np.zeros(1 << 24, np.uint8))
    tracemalloc.start()
    try:
        assert main(["inspect", str(tmp_path / "zeros.npz")]) == 0
        largest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert largest < 1.5 * (1 << 24)


def test_arrays_above_the_limit_name_the_argument_that_raises_it(tmp_path, capsys):
    path = str(tmp_path / "zeros.npz")
    np.savez_compressed(path, a=np.zeros(1 << 20, np.uint8))
    assert main(["inspect", path, "--max-bytes", "2000"]) == 1
    assert "zeros.npz has 1048704 bytes: expected at most 2000; use --max-bytes=1048704" in capsys.readouterr().err
    assert main(["inspect", path, "--max-bytes=1048704"]) == 0


def test_strings_in_checkpoints_are_listed(tmp_path, capsys):
    paths = []
    for folder, text in (("a", b"graph"), ("b", b"graph"), ("c", b"other")):
        (tmp_path / folder).mkdir()
        names = np.array([text, b"x"], object)
        paths.append(save_checkpoint(tmp_path / folder, {"OBJECT_GRAPH": np.array(text, object), "names": names}))
    assert main(["inspect", paths[0]]) == 0
    assert list(rows(capsys.readouterr().out)) == ["OBJECT_GRAPH", "names"]
    assert main(["inspect", paths[0], paths[1]]) == 0
    assert "2 of the 2 variable(s) in both are equal" in capsys.readouterr().out
    assert main(["inspect", paths[0], paths[2]]) == 0
    assert "0 of the 2 variable(s) in both are equal" in capsys.readouterr().out


def test_two_checkpoints_are_compared(tmp_path, capsys):
    np.savez(tmp_path / "other.npz", **{**VALUES, "conv0/W": VALUES["conv0/W"] + 0.5})
    assert main(["inspect", save_checkpoint(tmp_path, VALUES), str(tmp_path / "other.npz")]) == 0
    text = capsys.readouterr().out
    assert "conv0/W  [2, 2]   float32" in text
    assert text.endswith("2 of the 3 variable(s) in both are equal.\n")


def test_missing_checkpoints_are_told(tmp_path, capsys):
    assert main(["inspect", str(tmp_path / "model-1")]) == 1
    assert "there is no checkpoint" in capsys.readouterr().err


def test_numbers_are_read_without_tensorflow_however_the_checkpoint_is_called(tmp_path, capsys, monkeypatch):
    prefix = save_checkpoint(tmp_path, VALUES)
    texts = set()
    monkeypatch.setattr(inspect.importlib, "import_module", lambda name: pytest.fail(f"{name} was imported"))
    for path in (prefix, f"{prefix}.index", f"{prefix}.data-00000-of-00001", str(tmp_path), f"{tmp_path}/checkpoint"):
        text = inspect.run(SimpleNamespace(checkpoint=path, other=None, max_bytes=1))
        texts.add(text)
    assert len(texts) == 1


def test_of_a_directory_whose_newest_checkpoint_is_damaged_the_one_before_is_described(tmp_path, capsys):
    save_checkpoint(tmp_path, {"w": np.zeros(3)}, step=1)
    newest = save_checkpoint(tmp_path, VALUES, step=2)
    with open(f"{newest}.data-00000-of-00001", "r+b") as file:
        file.write(b"other")
    assert main(["inspect", str(tmp_path)]) == 0
    assert list(rows(capsys.readouterr().out)) == ["w"]
    assert main(["inspect", newest]) == 1
    assert "is damaged: its data of the variable 'conv0/W' cannot be read" in capsys.readouterr().err


def test_names_do_not_control_the_terminal_and_pipes_are_not_waited_for(tmp_path, capsys):
    np.savez(tmp_path / "names.npz", **{"a\x1b]0;title\x07": np.zeros(1)})
    assert main(["inspect", str(tmp_path / "names.npz")]) == 0
    assert "\x1b" not in capsys.readouterr().out
    prefix = save_checkpoint(tmp_path, {"w": np.zeros(3, "float32")})
    os.remove(f"{prefix}.data-00000-of-00001")
    os.mkfifo(f"{prefix}.data-00000-of-00001")
    assert main(["inspect", prefix]) == 1
    assert "expected a regular file" in capsys.readouterr().err
