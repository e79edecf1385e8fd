"""Data points, held against the input signature before they go any further.

A wrong data point would otherwise fail inside TensorFlow, in another thread, with a message about some operation.
Here the error names the component, the data point, what came and what was wanted.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.errors import DataPointError
from tpack.input_source.component import Component, Misfit


class DataPointChecker:
    """Checks data points against a signature.

    Args:
        signature: one ``tf.TensorSpec`` for each component.
        source: what gives the data points, for messages.
    """

    def __init__(self, signature: Sequence[Any], source: str) -> None:
        self._components = [Component(position, spec) for position, spec in enumerate(signature)]
        self._names = [spec.name for spec in signature]
        self._source = source

    @property
    def dtypes(self) -> list[np.dtype]:
        """The numpy dtype that each component must have when it is fed."""
        return [component.dtype for component in self._components]

    def check(self, data_point: Any, index: int) -> list[np.ndarray]:
        """Return the components of a data point as arrays, in the order of the signature, not copied and not cast yet.

        Args:
            data_point: a list or tuple, or a dict with the names of the signature as its keys.
            index: the number of the data point in its stream, from 0, for messages.

        Returns:
            Arrays that can be cast to `dtypes`.

        Raises:
            DataPointError: The number of components is wrong, or the rank, shape or dtype of one.
        """
        try:
            values = self._values(data_point)
            return [component.check(value) for component, value in zip(self._components, values, strict=True)]
        except Misfit as misfit:
            raise DataPointError(f"data point {index} of {self._source}: {misfit}") from misfit.__cause__

    def _values(self, data_point: Any) -> Sequence[Any]:
        wanted = f"{len(self._names)} components ({', '.join(self._names)})"
        if isinstance(data_point, dict):
            if set(data_point) != set(self._names):
                raise Misfit(f"it is a dict with the keys {list(data_point)}, wanted {wanted}")
            return [data_point[name] for name in self._names]
        if not isinstance(data_point, (list, tuple)):
            raise Misfit(f"it is a {type(data_point).__name__}, wanted a list, tuple or dict of {wanted}")
        if len(data_point) != len(self._names):
            raise Misfit(f"it has {len(data_point)} components, wanted {wanted}")
        return data_point
