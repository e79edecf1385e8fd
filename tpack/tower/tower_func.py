"""A tower function: the user's model code, which remembers every tower that it was called in."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, TowerError
from tpack.tower.context import current_tower_context
from tpack.tower.handles import TowerHandle, TowerHandles
from tpack.tower.keras_updates import KerasUpdates


class TowerFunc:
    """Wrap a function of input tensors; each call must happen inside a tower and adds a handle to `towers`.

    Args:
        tower_fn: builds the model from one tensor for each entry of the signature.
        input_signature: what the inputs are: ``tf.TensorSpec`` each, with different names.

    Raises:
        ConfigError: The signature holds something else, an entry without a name, or a name twice.
    """

    def __init__(self, tower_fn: Callable[..., Any], input_signature: Sequence[Any]) -> None:
        if not callable(tower_fn):
            raise ConfigError(f"a tower function must be callable, got {tower_fn!r}")
        self._tower_fn = tower_fn
        self._input_signature = check_signature(input_signature)
        self._handles: list[TowerHandle] = []

    @property
    def function(self) -> Callable[..., Any]:
        """The function that is wrapped."""
        return self._tower_fn

    @property
    def input_signature(self) -> list[Any]:
        """What the inputs are, as ``tf.TensorSpec``."""
        return list(self._input_signature)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs."""
        return [spec.name for spec in self._input_signature]

    @property
    def towers(self) -> TowerHandles:
        """A handle of each call so far."""
        return TowerHandles(self._handles)

    def without_towers(self) -> "TowerFunc":
        """Return the same function and signature as a tower function that has built nothing yet."""
        return TowerFunc(self._tower_fn, self._input_signature)

    def __reduce__(self) -> Any:
        # Towers belong to a graph, which stays in its process.
        return TowerFunc, (self._tower_fn, self._input_signature)

    def __call__(self, *inputs: Any) -> Any:
        """Build one tower.

        Args:
            *inputs: one tensor for each entry of the signature.

        Returns:
            What the wrapped function returns.

        Raises:
            TowerError: The number of inputs is not that of the signature, no tower is current, or an earlier tower has
                the same name.
        """
        context = current_tower_context()
        if context.name and context.name in [handle.name for handle in self._handles]:
            raise TowerError(f"there is a tower {context.name!r} already: give this one another name")
        if len(inputs) != len(self._input_signature):
            raise TowerError(
                f"the tower function takes {len(self._input_signature)} inputs ({', '.join(self.input_names)}), got "
                f"{len(inputs)}"
            )
        updates = KerasUpdates(context.name)
        output = self._tower_fn(*inputs)
        if context.updates_variables:
            updates.collect(context.recorder.variables)
        self._handles.append(TowerHandle(context, inputs, output, self.input_names))
        return output


def check_signature(signature: Sequence[Any]) -> list[Any]:
    """Return ``signature`` as a list after checking it.

    Args:
        signature: ``tf.TensorSpec`` each, with different names.

    Raises:
        ConfigError: Something in it is not a ``tf.TensorSpec``, has no name, or has the name of another.
    """
    specs = list(signature)
    for position, spec in enumerate(specs):
        if not isinstance(spec, tf.TensorSpec) or not spec.name:
            raise ConfigError(
                f"entry {position} of an input signature must be a tf.TensorSpec with a name, got {spec!r}"
            )
    names = [spec.name for spec in specs]
    if len(set(names)) < len(names):
        raise ConfigError(f"the names in an input signature must differ, got {names}")
    return specs
