"""Gradient processors that change gradients, against numpy."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tfutils.gradproc import (
    AdaptiveClip,
    FilterNoneGrad,
    GlobalNormClip,
    MapGradient,
    ScaleGradient,
    compile_pattern,
)
from tpack.tower.context import TrainTowerContext

VALUES = {"conv0/W": [3.0, 4.0], "conv0/b": [12.0]}


def make_grads() -> list[tuple[Any, Any]]:
    return [
        (tf.constant(value), tf.get_variable(name, [len(value)], use_resource=True)) for name, value in VALUES.items()
    ]


def run(session: Any, grads: Any) -> dict[str, Any]:
    return {variable.op.name: session.run(gradient).tolist() for gradient, variable in grads}


def test_filter_drops_variables_without_gradient_and_names_them(graph: Any, logged: list[str]) -> None:
    (gradient, a), (_, b) = make_grads()
    assert FilterNoneGrad().process([(gradient, a), (None, b)]) == [(gradient, a)]
    assert logged == ["No gradient with respect to 1 variable(s): conv0/b"]
    FilterNoneGrad(verbose=False).process([(None, b)])
    assert len(logged) == 1


@pytest.mark.parametrize(("limit", "factor"), [(13.0, 1), (26.0, 1), (6.5, 0.5)])
def test_global_norm_is_clipped(session8: Any, limit: float, factor: float) -> None:
    clipped = run(session8, GlobalNormClip(limit).process(make_grads()))
    for name, value in VALUES.items():
        np.testing.assert_allclose(clipped[name], np.multiply(value, factor), rtol=1e-6)


def test_global_norm_counts_sparse_gradients(session8: Any) -> None:
    variable = tf.get_variable("embedding", [5, 2], use_resource=True)
    slices = tf.IndexedSlices(tf.constant([[3.0, 4.0]]), tf.constant([1]), tf.constant([5, 2]))
    dense, other = make_grads()[1]
    (clipped, _), (clipped_dense, _) = GlobalNormClip(6.5).process([(slices, variable), (dense, other)])
    np.testing.assert_allclose(session8.run(clipped.values), [[1.5, 2]], rtol=1e-6)
    np.testing.assert_allclose(session8.run(clipped_dense), [6], rtol=1e-6)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (0, "global_norm=0: expected a number above 0"),
        (-1, "global_norm=-1: expected a number above 0"),
        (float("nan"), "GlobalNormClip got global_norm=nan: expected a number"),
    ],
)
def test_global_norm_must_be_above_zero(limit: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GlobalNormClip(limit)


def test_map_applies_to_whole_names_that_match(session8: Any) -> None:
    assert run(session8, MapGradient(tf.negative, "conv0/W").process(make_grads())) == {
        "conv0/W": [-3, -4],
        "conv0/b": [12],
    }


def test_map_gives_the_variable_to_functions_that_want_it(session8: Any) -> None:
    seen = []

    def drop_b(gradient: Any, variable: Any, factor: float = 2.0) -> Any:
        seen.append(variable.op.name)
        return None if variable.op.name.endswith("b") else gradient * factor

    assert run(session8, MapGradient(drop_b).process(make_grads())) == {"conv0/W": [6, 8]}
    assert seen == list(VALUES)


def test_map_leaves_variables_without_gradient(graph: Any) -> None:
    (gradient, a), (_, b) = make_grads()
    assert MapGradient(lambda grad: grad).process([(None, b), (gradient, a)]) == [(None, b), (gradient, a)]


def test_map_takes_names_without_the_towers_variable_scope(session8: Any) -> None:
    with TrainTowerContext("tower1", "copy", index=1, total=2):
        mapped = MapGradient(tf.negative, "conv0/W").process(make_grads())
    assert run(session8, mapped) == {"copy/conv0/W": [-3, -4], "copy/conv0/b": [12]}


@pytest.mark.parametrize(
    ("func", "count"), [(lambda: 0, 0), (lambda a, b, c: 0, 3), (lambda *args: 0, 0), (lambda a=1: 0, 0)]
)
def test_map_rejects_functions_of_other_arguments(func: Any, count: int) -> None:
    with pytest.raises(
        ConfigError, match=f"MapGradient got func=.*: expected one or two arguments without a default, .* not {count}"
    ):
        MapGradient(func)


def test_map_rejects_what_it_cannot_look_into() -> None:
    with pytest.raises(WrongTypeError, match="^MapGradient got func="):
        MapGradient(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("regex", ["(", 3])
def test_invalid_regular_expressions_are_rejected(regex: Any) -> None:
    with pytest.raises(ConfigError, match="expected a regular expression"):
        compile_pattern(regex)


def test_scale_multiplies_by_the_first_match_and_says_so(session8: Any, logged: list[str]) -> None:
    scaled = ScaleGradient([(".*/b", 2), (".*", 0.5)]).process(make_grads())
    assert run(session8, scaled) == {"conv0/W": [1.5, 2], "conv0/b": [24]}
    assert logged == ["The gradient of conv0/W is multiplied by 0.5", "The gradient of conv0/b is multiplied by 2.0"]


def test_scale_by_zero_drops_the_gradient(session8: Any, logged: list[str]) -> None:
    assert run(session8, ScaleGradient((".*/W", 0), verbose=False).process(make_grads())) == {"conv0/b": [12]}
    assert logged == []


@pytest.mark.parametrize(
    ("multipliers", "message"),
    [
        ([3], r"got multipliers\[0\]=3: expected a tuple of 2"),
        ([(".*",)], r"got multipliers\[0\]=\('\.\*',\): expected a tuple of 2"),
        ([(".*", "x")], r"got multipliers\[0\]\[1\]='x': expected a number"),
        ([("(", 1.0)], "ScaleGradient got multipliers=.*: expected a pair of a regular expression and a number"),
        (3, "got multipliers=3: expected a tuple of 2 or a list of a tuple of 2"),
    ],
)
def test_scale_rejects_what_is_no_pair(multipliers: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ScaleGradient(multipliers)


def clipped_in_numpy(gradient, weights, clipping, least):
    """Clip by unit with loops."""
    columns = gradient.shape[-1] if gradient.ndim > 1 else 1
    flat, w = gradient.reshape(-1, columns), weights.reshape(-1, columns)
    out = flat.copy()
    for unit in range(columns):
        limit = clipping * max(np.sqrt((w[:, unit] ** 2).sum()), least)
        norm = np.sqrt((flat[:, unit] ** 2).sum())
        if norm > limit:
            out[:, unit] *= limit / norm
    return out.reshape(gradient.shape)


@pytest.mark.parametrize("shape", [(3, 3, 4, 5), (6, 4), (7,), ()])
def test_adaptive_clip_limits_each_unit_by_its_weights(session8, shape):
    rng = np.random.default_rng(0)
    weights, gradient = (np.float32(rng.normal(size=shape) * rng.uniform(0, 2, size=shape[-1:])) for _ in range(2))
    if shape:
        weights[..., 0] = 0
    else:
        gradient = np.float32(3.0)
    v = tf.get_variable("v", initializer=weights, use_resource=True)
    [(clipped, _)] = AdaptiveClip(0.5, 0.1).process([(tf.constant(np.float32(gradient)), v)])
    session8.run(tf.global_variables_initializer())
    wanted = clipped_in_numpy(np.asarray(gradient), np.asarray(weights), 0.5, 0.1)
    assert not np.allclose(wanted, gradient)
    np.testing.assert_allclose(session8.run(clipped), wanted, rtol=1e-5, atol=1e-7)


def test_adaptive_clip_leaves_other_names(session8):
    variables = [
        tf.get_variable(name, initializer=np.ones(3, "float32"), use_resource=True) for name in ("a/W", "linear/W")
    ]
    pairs = AdaptiveClip(0.1, regex="(?!linear/).*").process([(tf.ones(3), v) for v in variables])
    session8.run(tf.global_variables_initializer())
    first, second = session8.run([gradient for gradient, _ in pairs])
    np.testing.assert_allclose(first, 0.1, rtol=1e-6)
    np.testing.assert_array_equal(second, 1)


def test_adaptive_clip_wants_positive_numbers():
    with pytest.raises(ConfigError, match="clipping=0"):
        AdaptiveClip(0)
    with pytest.raises(ConfigError, match="least=-1"):
        AdaptiveClip(0.1, -1)
