"""A layer's variables by the names they have in it, as an attribute of the layer's output."""

from typing import Any


class VariableHolder:
    """Holds variables as attributes.

    Args:
        **kwargs: the variables by name.

    Example:
        x = Conv2D("conv0", image, 32, 3)
        tf.summary.histogram("conv0", x.variables.W)
    """

    def __init__(self, **kwargs: Any) -> None:
        self._variables: dict[str, Any] = {}
        for name, variable in kwargs.items():
            setattr(self, name, variable)

    def __setattr__(self, name: str, variable: Any) -> None:
        super().__setattr__(name, variable)
        if not name.startswith("_"):
            self._variables[name] = variable

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no variable {name!r} here, only {', '.join(vars(self).get('_variables', ()))}")

    def all(self) -> list[Any]:
        """Return the variables in the order in which they were given."""
        return list(self._variables.values())

    def __repr__(self) -> str:
        return f"VariableHolder({', '.join(self._variables)})"
