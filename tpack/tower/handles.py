"""Look up what a tower built: its tensors, variables and collections, by the names that the tower function used."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import TowerError
from tpack.tower.context import TowerContext
from tpack.tower.keys import VARIABLE_KEYS
from tpack.tower.names import join_scope, op_and_tensor_name


class TowerHandle:
    """One finished call of a tower function.

    Args:
        context: the tower it was called in.
        inputs: the input tensors, one for each entry of the signature.
        output: what the function returned.
        input_names: the names of the inputs in the signature.
    """

    def __init__(self, context: TowerContext, inputs: Sequence[Any], output: Any, input_names: Sequence[str]) -> None:
        self.context = context
        self.inputs = list(inputs)
        self.output = output
        self._graph = tf.get_default_graph()
        self._inputs_by_name = dict(zip(input_names, self.inputs, strict=True))

    @property
    def name(self) -> str:
        """The name of the tower."""
        return self.context.name

    @property
    def ns_name(self) -> str:
        """The name scope of the tower; empty for none."""
        return self.context.ns_name

    @property
    def vs_name(self) -> str:
        """The variable scope of the tower; empty for none."""
        return self.context.vs_name

    @property
    def is_training(self) -> bool:
        """Whether the tower was built for training."""
        return self.context.is_training

    def get_tensor(self, name: str) -> Any:
        """Return a tensor of this tower.

        Args:
            name: the name inside the tower function, the full name of a tensor anywhere in the graph, or the name of
                an input in the signature, which wins over both.

        Raises:
            TowerError: There is none. The message lists near names.
        """
        op_name, tensor_name = op_and_tensor_name(name)
        if op_name in self._inputs_by_name and tensor_name == f"{op_name}:0":
            return self._inputs_by_name[op_name]
        for candidate in (join_scope(self.ns_name, tensor_name), tensor_name):
            try:
                return self._graph.get_tensor_by_name(candidate)
            except (KeyError, ValueError):
                continue
        raise TowerError(f"no tensor {name!r} in {self.context!r} or in the graph{self._near_names(op_name)}")

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """Return several tensors, as `get_tensor` does each."""
        return [self.get_tensor(name) for name in names]

    def get_variable(self, name: str) -> Any:
        """Return a variable that this tower uses.

        Args:
            name: as the tower function names it, without the tower's variable scope; ``":0"`` behind it is allowed.

        Raises:
            TowerError: There is none.
        """
        full_name = join_scope(self.vs_name, op_and_tensor_name(name)[0])
        variables = {v.op.name: v for key in VARIABLE_KEYS for v in self._graph.get_collection(key)}
        variables.update({v.op.name: v for v in self.context.recorder.variables})
        if full_name not in variables:
            near = get_close_matches(full_name, variables, n=5)
            hint = f"; near names: {', '.join(near)}" if near else ""
            raise TowerError(f"no variable {full_name!r} in {self.context!r}{hint}")
        return variables[full_name]

    def get_variables(self, names: Iterable[str]) -> list[Any]:
        """Return several variables, as `get_variable` does each."""
        return [self.get_variable(name) for name in names]

    def get_collection(self, key: str | None = None, name: str | None = None) -> list[Any]:
        """Return what this tower added to a collection.

        Args:
            key: the collection.
            name: the same under its other name in scripts.

        Raises:
            TowerError: Not exactly one of the two is given.
        """
        if (key is None) == (name is None):
            raise TowerError(f"wanted the key of one collection, got key={key!r} and name={name!r}")
        return self.context.get_collection_in_tower(key if key is not None else str(name))

    def __getitem__(self, name: str) -> Any:
        """Return the tensor ``name``, or else the variable of that name."""
        try:
            return self.get_tensor(name)
        except TowerError as no_tensor:
            try:
                return self.get_variable(name)
            except TowerError:
                raise no_tensor from None

    def _near_names(self, op_name: str) -> str:
        prefix = join_scope(self.ns_name, "")
        names = [op.name[len(prefix) :] for op in self._graph.get_operations() if op.name.startswith(prefix)]
        near = get_close_matches(op_name, names, n=5)
        return f"; near names: {', '.join(near)}" if near else ""

    def __repr__(self) -> str:
        return f"TowerHandle of {self.context!r}"


class TowerHandles(Sequence[TowerHandle]):
    """The handles of all calls of a tower function, by number or by the tower's name.

    Args:
        handles: in the order of the calls.
    """

    def __init__(self, handles: Sequence[TowerHandle]) -> None:
        self._handles = list(handles)

    def training(self) -> "TowerHandles":
        """Return the towers built for training."""
        return TowerHandles([handle for handle in self._handles if handle.is_training])

    def inference(self) -> "TowerHandles":
        """Return the towers built for prediction."""
        return TowerHandles([handle for handle in self._handles if not handle.is_training])

    def __getitem__(self, which: Any) -> Any:
        """Return one handle by its number or its tower's name, or several by a slice."""
        if isinstance(which, slice):
            return TowerHandles(self._handles[which])
        if isinstance(which, int):
            return self._handles[which]
        for handle in self._handles:
            if handle.name == which:
                return handle
        raise TowerError(f"no tower is called {which!r}; there are {[handle.name for handle in self._handles]}")

    def __len__(self) -> int:
        return len(self._handles)

    def __iter__(self) -> Iterator[TowerHandle]:
        return iter(self._handles)

    def __repr__(self) -> str:
        return f"TowerHandles({self._handles!r})"
