"""A transform made of functions."""

from collections.abc import Callable
from typing import Any

from tpack.dataflow.imgaug.transform import Transform
from tpack.errors import ConfigError


class TransformFactory(Transform):
    """Do what functions do; boxes follow from the coordinates unless they have a function of their own.

    Example:
        ``TransformFactory(name="Invert", apply_image=lambda img: 255 - img, apply_coords=lambda coords: coords)``
    """

    def __init__(self, name: str | None = None, **kwargs: Callable[[Any], Any]) -> None:
        """Make the transform.

        Args:
            name: what it is called in messages.
            **kwargs: functions of one argument by the name of the method, such as ``apply_image``.

        Raises:
            ConfigError: A name does not begin with ``apply_``, or its value is no function.
        """
        for method, function in kwargs.items():
            if not method.startswith("apply_") or not callable(function):
                raise ConfigError(
                    f"TransformFactory got {method}={function!r}: wanted functions by names such as apply_image"
                )
        self._name = name
        vars(self).update(kwargs)

    def __repr__(self) -> str:
        return super().__repr__() if self._name is None else f"TransformFactory({self._name!r})"
