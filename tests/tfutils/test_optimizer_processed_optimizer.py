"""Gradients pass through processors before an optimizer applies them, whichever it is."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizer_runs import assert_weights_equal, train_model
from tests.helpers.optimizers import OPTIMIZERS
from tpack.errors import ConfigError
from tpack.tfutils.gradproc import CheckGradient, FilterNoneGrad, GlobalNormClip, ScaleGradient
from tpack.tfutils.optimizer import apply_grad_processors


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_processed_gradients_are_what_is_applied(name: str) -> None:
    def by_hand(variables: Any, pairs: Any) -> Any:
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.5)
        halves = [clipped[0] * 0.5, clipped[1]]
        return OPTIMIZERS[name]().apply_gradients(zip(halves, variables, strict=True))

    def by_processors(variables: Any, pairs: Any) -> Any:
        processors = [FilterNoneGrad(), GlobalNormClip(0.5), ScaleGradient((".*/W", 0.5)), CheckGradient()]
        return apply_grad_processors(OPTIMIZERS[name](), processors).apply_gradients(pairs)

    assert_weights_equal(train_model(by_processors), train_model(by_hand))


def test_other_things_among_the_processors_are_rejected() -> None:
    with pytest.raises(ConfigError, match="wanted a list of GradientProcessor objects, got 5"):
        apply_grad_processors(tf.train.GradientDescentOptimizer(0.1), [5])  # type: ignore[list-item]
