"""``tpack average``: means of checkpoints in numpy, and what cannot be averaged."""

import numpy as np
import pytest

from tests.helpers.checkpoints import save_checkpoint
from tpack.cli.main import main
from tpack.tfutils.varmanip import load_checkpoint_vars

WEIGHTS = [np.float32([[1, 2], [3, 4]]), np.float32([[3, 2], [5, 0]]), np.float32([[5, 8], [1, 2]])]


def checkpoints(tmp_path):
    paths = []
    for number, w in enumerate(WEIGHTS):
        directory = tmp_path / str(number)
        directory.mkdir()
        values = {
            "fc/W": w,
            "fc/W/AdamW": w,
            "bn/mean/EMA": w[0],
            "count": np.int64(number),
            "global_step": np.int64(9),
        }
        paths.append(save_checkpoint(directory, values))
    return paths


@pytest.mark.parametrize("out", ["mean", "mean.npz"])
def test_fractions_are_averaged_and_counters_are_the_last(tmp_path, capsys, out):
    out = str(tmp_path / out)
    assert main(["average", *checkpoints(tmp_path), "--out", out]) == 0
    assert capsys.readouterr().out == f"Wrote the mean of 3 checkpoints, 3 variable(s), to {out}\n"
    values = load_checkpoint_vars(out)
    assert sorted(values) == ["bn/mean/EMA", "count", "fc/W"]
    np.testing.assert_allclose(values["fc/W"], np.mean(WEIGHTS, axis=0))
    np.testing.assert_allclose(values["bn/mean/EMA"], np.mean(WEIGHTS, axis=0)[0])
    assert values["fc/W"].dtype == np.float32
    assert values["count"] == 2


def refusal(tmp_path, capsys, *paths):
    out = tmp_path / "mean"
    assert main(["average", *paths, "--out", str(out)]) != 0
    assert not list(tmp_path.glob("mean*"))
    return capsys.readouterr().err


def test_what_cannot_be_averaged_is_refused_before_anything_is_written(tmp_path, capsys):
    first, *_ = checkpoints(tmp_path)

    def other(name, values):
        (tmp_path / name).mkdir()
        return save_checkpoint(tmp_path / name, values)

    fitting = {"fc/W": WEIGHTS[0], "bn/mean/EMA": WEIGHTS[0][0], "count": np.int64(0)}
    narrow = other("narrow", {**fitting, "fc/W": WEIGHTS[0][:1]})
    broken = other("broken", {**fitting, "fc/W": np.full([2, 2], np.nan, "float32")})
    slots = other("slots", {"global_step": np.int64(1)})
    assert "expected at least two, none of them twice" in refusal(tmp_path, capsys, first)
    assert "expected at least two, none of them twice" in refusal(tmp_path, capsys, first, first)
    assert "fc/W is of shape [2, 2] in" in refusal(tmp_path, capsys, first, narrow)
    assert "fc/W is not finite in the checkpoint" in refusal(tmp_path, capsys, first, broken)
    assert "has only variables for training" in refusal(tmp_path, capsys, first, slots)
    assert "nowhere" in refusal(tmp_path, capsys, first, str(tmp_path / "nowhere"))
