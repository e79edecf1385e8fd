"""Summary operations: exact tags, and errors for what is no scalar."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.summaries import read_summaries
from tpack.errors import GraphBuildError
from tpack.tfutils.summary import add_histogram_summary, add_scalar_summary, check_scalar


@pytest.mark.parametrize("value", [2.5, np.float64(2.5), np.float16(2.5), 3, True])
def test_scalar_of_any_numeric_dtype_has_exactly_the_tag(session8: Any, value: Any) -> None:
    with tf.name_scope("a"):
        add_scalar_summary("cost", tf.constant(value, name="cost"))
    assert read_summaries(session8) == {"cost": float(value)}


def test_histogram_counts_the_values(session8: Any) -> None:
    add_histogram_summary("W", np.array([1.0, 2.0, 2.0], "float32"), ["mine"])
    histogram = read_summaries(session8, "mine")["W"]
    assert (histogram.num, histogram.sum, histogram.min, histogram.max) == (3, 5, 1, 2)
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == []


def test_scalar_goes_to_the_collections_asked_for(session8: Any) -> None:
    add_scalar_summary("cost", tf.constant(1.0), ["a", "b"])
    assert read_summaries(session8, "a") == read_summaries(session8, "b") == {"cost": 1}


def test_variable_is_a_scalar(graph: Any) -> None:
    check_scalar(tf.get_variable("v", [], use_resource=True))
    with pytest.raises(GraphBuildError, match=r"got w:0 of shape \(2,\) and dtype float32"):
        check_scalar(tf.get_variable("w", [2], use_resource=True))


def test_other_shapes_dtypes_and_things_are_rejected(graph: Any) -> None:
    with pytest.raises(GraphBuildError, match=r"got x:0 of shape \(2, 3\) and dtype float32"):
        check_scalar(tf.zeros([2, 3], name="x"))
    with pytest.raises(GraphBuildError, match="of shape <unknown>"):
        check_scalar(tf.placeholder(tf.float32, None))
    with pytest.raises(GraphBuildError, match="dtype string"):
        check_scalar(tf.constant("text"))
    with pytest.raises(GraphBuildError, match=r"a summary got 0\.5: expected a scalar tensor"):
        check_scalar(0.5)
