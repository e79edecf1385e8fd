"""The results of evaluations in event files."""

import numpy as np

from tests.helpers.event_files import scalars_in
from tpack.estimator.evaluation import write_results


def test_numbers_are_written(tmp_path):
    results = {"loss": np.float32(0.5), "hits": 3, "curve": np.zeros(3), "name": b"text", "global_step": np.int64(7)}
    write_results(str(tmp_path / "eval"), results, 7)
    assert scalars_in(tmp_path / "eval") == {"loss": [(7, 0.5)], "hits": [(7, 3.0)]}


def test_results_of_one_second_are_all_kept(tmp_path):
    for step in range(3):
        write_results(str(tmp_path), {"loss": step / 2}, step)
    assert scalars_in(tmp_path)["loss"] == [(0, 0.0), (1, 0.5), (2, 1.0)]
