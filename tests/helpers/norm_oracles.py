"""Normalisation written out in numpy, with the channels last."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def normalized(x: np.ndarray, axes: Any, epsilon: float = 1e-5) -> np.ndarray:
    """Return ``x`` less its mean over some axes, divided by the root of its variance over them and epsilon."""
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def affine(x: np.ndarray, variables: Mapping[str, np.ndarray], layer: str) -> np.ndarray:
    """Return ``x`` times gamma plus beta, as far as a layer has them."""
    return x * variables.get(f"{layer}/gamma", 1.0) + variables.get(f"{layer}/beta", 0.0)
