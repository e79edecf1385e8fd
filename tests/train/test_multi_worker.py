import numpy as np
import pytest

from tests.helpers.equivalence import one_tower
from tests.helpers.worker_job import run_workers, values_of

OPTIMIZERS = ["sgd", "momentum", "adam"]


def equal_bits(left, right):
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(("workers", "towers", "by"), [(2, 2, "RANK"), (3, 1, "TF_CONFIG")])
def test_workers_and_towers_equal_one_tower_with_the_whole_batch(tmp_path, workers, towers, by):
    arguments = {"towers": towers, "optimizers": OPTIMIZERS, "size": workers}
    found = values_of(run_workers("train_equivalence", workers, tmp_path, by=by, arguments=arguments))
    for name in OPTIMIZERS:
        oracle = one_tower(name, workers * towers).weights[0]
        chief = found[0][name]
        for weight, wanted in oracle.items():
            np.testing.assert_allclose(chief[weight], wanted, rtol=1e-9, atol=1e-12, err_msg=f"{name} {weight}")
            for tower in range(1, towers):
                assert np.array_equal(chief[f"tower{tower}/{weight}"], chief[weight])
        assert all(equal_bits(chief, other[name]) for other in found[1:])
