"""Pooling against numpy, in both formats."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.feature_maps import pool2d
from tests.helpers.layer_checks import FORMATS, assert_layer
from tpack.errors import ConfigError, WrongTypeError
from tpack.models.pool import AvgPooling, GlobalAvgPooling, MaxPooling

POOLINGS = [(MaxPooling, np.nanmax), (AvgPooling, np.nanmean)]


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(("size", "strides", "padding"), [((2, 3), (1, 2), "same"), ((3, 2), (2, 2), "valid")])
@pytest.mark.parametrize(("layer", "reduce"), POOLINGS)
def test_values_and_gradients(
    layer: Any,
    reduce: Any,
    size: tuple[int, int],
    strides: tuple[int, int],
    padding: str,
    data_format: str,
    rng: np.random.Generator,
) -> None:
    def build(x: Any, data_format: str) -> Any:
        return layer("pool", x, size, strides, padding, data_format)

    x = rng.normal(size=(2, 5, 6, 3))
    assert_layer(build, x, lambda x, _: pool2d(reduce, x, size, strides, padding), data_format)


@pytest.mark.parametrize("data_format", FORMATS)
def test_global_average(data_format: str, rng: np.random.Generator) -> None:
    def build(x: Any, data_format: str) -> Any:
        return GlobalAvgPooling("gap", x, data_format=data_format)

    assert_layer(build, rng.normal(size=(2, 5, 4, 3)), lambda x, _: x.mean((1, 2)), data_format)


@pytest.mark.parametrize("layer", [MaxPooling, AvgPooling])
def test_windows_lie_side_by_side_by_default_and_older_names_are_known(graph: Any, layer: Any) -> None:
    x = tf.zeros([1, 7, 7, 2])
    y, z = layer("a", x, 3), layer("b", x, shape=3, stride=2, padding="SAME")
    assert (y.shape, z.shape) == ([1, 2, 2, 2], [1, 4, 4, 2])
    assert (y.name, z.name) == ("a/output:0", "b/output:0")
    assert len(graph.get_operations()) == 3


@pytest.mark.parametrize("layer", [MaxPooling, AvgPooling])
def test_bad_arguments_are_named(graph: Any, layer: Any) -> None:
    name, x = layer.__name__, tf.zeros([1, 4, 4, 2])
    with pytest.raises(ConfigError, match=f"{name} 'p' got an input of .*: expected 4 dimensions"):
        layer("p", tf.zeros([1, 4, 4]), 2)
    with pytest.raises(WrongTypeError, match=" got padding="):
        layer("p", x, 2, padding=1)
    with pytest.raises(ConfigError, match=f"{name} 'p' got strides=0: expected positive integers"):
        layer("p", x, 2, 0)


def test_global_average_wants_a_feature_map(graph: Any) -> None:
    with pytest.raises(ConfigError, match="GlobalAvgPooling 'gap' got an input of .*: expected 4 dimensions"):
        GlobalAvgPooling("gap", tf.zeros([1, 4]))
