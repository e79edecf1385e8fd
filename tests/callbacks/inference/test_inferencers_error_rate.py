import math

import numpy as np
import pytest

from tpack.callbacks.inference.inferencers import ClassificationError
from tpack.errors import CallbackError


def evaluate(batches):
    error = ClassificationError("wrong", "err")
    error._before_inference()
    for batch in batches:
        error.on_fetches([batch])
    return error._after_inference()


def test_error_rate_is_exact_for_uneven_batches(rng):
    wrong = rng.integers(0, 2, 23)
    batches = [wrong[start : start + 5] for start in range(0, 23, 5)]
    assert evaluate(batches) == {"err": wrong.sum() / 23}


@pytest.mark.parametrize("dtype", [bool, np.float32, np.int64])
def test_every_kind_of_zero_and_one_counts(dtype):
    assert evaluate([np.array([1, 0, 1, 1], dtype=dtype)]) == {"err": 0.75}


def test_names_are_the_usual_ones():
    error = ClassificationError()
    assert error.get_fetches() == ["incorrect_vector:0"]
    assert list(error._after_inference()) == ["validation_error"]


def test_rate_of_nothing_is_nan():
    assert math.isnan(evaluate([])["err"])


def test_tensor_that_is_no_vector_is_an_error():
    with pytest.raises(CallbackError, match=r"wants 'wrong' to be a vector .*, got shape \(\)"):
        evaluate([np.float32(1)])
