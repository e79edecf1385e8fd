"""tensorpack's trainers on Horovod: equal to tpack's trainer, in a script that uses ``hvd`` too."""

from typing import Any

import numpy as np
import pytest

import tpack
from tests.helpers.worker_job import run_workers, values_of
from tpack.horovod.trainer import BytePSTrainer, HorovodTrainer

RUN = "tests.helpers.horovod_workers.run"


@pytest.fixture(scope="module")
def workers(tmp_path_factory: Any) -> list[Any]:
    directory = tmp_path_factory.mktemp("trainers")
    return values_of(run_workers(RUN, 2, directory, arguments={"what": "trainers"}))


@pytest.mark.parametrize("name", ["horovod", "byteps"])
def test_weights_are_those_of_the_trainer_of_several_workers(workers: list[Any], tmp_path: Any, name: str) -> None:
    expected = values_of(run_workers(RUN, 2, tmp_path, arguments={"what": "replicated"}))[0]
    assert workers[0][name].keys() == expected.keys()
    for key, value in workers[0][name].items():
        np.testing.assert_array_equal(value, expected[key], err_msg=key)


def test_collective_operations_agree_with_each_trainer(workers: list[Any]) -> None:
    for found in workers:
        assert [found[f"{name} agrees"] for name in ("horovod", "fp16", "byteps")] == [[0, 1]] * 3
        assert "expected hvd.Compression.fp16" in found["refused"]


def test_compressed_gradients_are_rounded(workers: list[Any]) -> None:
    plain, rounded = (workers[0][name]["kernel"] for name in ("horovod", "fp16"))
    assert not np.array_equal(plain, rounded)
    np.testing.assert_allclose(plain, rounded, atol=1e-3)


def test_tensorpacks_names_are_these_classes() -> None:
    assert tpack.HorovodTrainer is HorovodTrainer
    assert tpack.BytePSTrainer is BytePSTrainer
