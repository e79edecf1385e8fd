"""Transforms made of functions."""

import numpy as np
import pytest

from tpack.dataflow.imgaug.base import TransformFactory, UnsupportedTransformError
from tpack.errors import ConfigError


def test_functions_are_the_methods():
    tfm = TransformFactory(name="Shift", apply_image=lambda img: img + 1, apply_coords=lambda coords: coords + 2)
    assert tfm.apply_image(np.zeros((1, 1))).tolist() == [[1]]
    assert tfm.apply_box(np.array([[0.0, 1, 2, 3]])).tolist() == [[2, 3, 4, 5]]
    assert repr(tfm) == "TransformFactory('Shift')"


def test_method_that_was_not_given_is_refused():
    tfm = TransformFactory(apply_image=str)
    with pytest.raises(UnsupportedTransformError, match="TransformFactory.* cannot change coordinates"):
        tfm.apply_coords(np.zeros((1, 2)))


@pytest.mark.parametrize("options", [{"image": str}, {"apply_image": 3}])
def test_what_is_no_method_is_refused(options):
    with pytest.raises(ConfigError, match="wanted functions by names such as apply_image"):
        TransformFactory(**options)
