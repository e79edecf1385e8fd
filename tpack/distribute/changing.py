"""The methods by which variables are changed: one list for all variables of several devices.

TensorFlow's own would change the component of one device. Here each goes through one method, which a kind of variable
implements: it knows what a change is to its components, depending on where it is asked for.
"""

from typing import Any

TO_AGGREGATE = ("assign", "assign_add", "assign_sub", "scatter_add", "scatter_sub")
"""The changes that are the same, whether the values of towers are aggregated first or what they do is."""


class ChangingMethods:
    """Gives a variable the methods of ``tf.Variable`` that change it.

    The options are those of the methods of the same names: ``name``, ``use_locking``, and for the first three
    ``read_value``.
    """

    def _change(self, method: str, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call a method of components with values, each component with its own."""
        raise NotImplementedError

    def assign(self, value: Any, **options: Any) -> Any:
        """Assign a value."""
        return self._change("assign", (value,), options)

    def assign_add(self, delta: Any, **options: Any) -> Any:
        """Add a value."""
        return self._change("assign_add", (delta,), options)

    def assign_sub(self, delta: Any, **options: Any) -> Any:
        """Subtract a value."""
        return self._change("assign_sub", (delta,), options)

    def scatter_add(self, sparse_delta: Any, **options: Any) -> Any:
        """Add ``IndexedSlices``."""
        return self._change("scatter_add", (sparse_delta,), options)

    def scatter_sub(self, sparse_delta: Any, **options: Any) -> Any:
        """Subtract ``IndexedSlices``."""
        return self._change("scatter_sub", (sparse_delta,), options)

    def scatter_update(self, sparse_delta: Any, **options: Any) -> Any:
        """Assign ``IndexedSlices``."""
        return self._change("scatter_update", (sparse_delta,), options)

    def scatter_max(self, sparse_delta: Any, **options: Any) -> Any:
        """Keep the larger of what is there and of ``IndexedSlices``."""
        return self._change("scatter_max", (sparse_delta,), options)

    def scatter_min(self, sparse_delta: Any, **options: Any) -> Any:
        """Keep the smaller of what is there and of ``IndexedSlices``."""
        return self._change("scatter_min", (sparse_delta,), options)

    def scatter_mul(self, sparse_delta: Any, **options: Any) -> Any:
        """Multiply by ``IndexedSlices``."""
        return self._change("scatter_mul", (sparse_delta,), options)

    def scatter_div(self, sparse_delta: Any, **options: Any) -> Any:
        """Divide by ``IndexedSlices``."""
        return self._change("scatter_div", (sparse_delta,), options)

    def batch_scatter_update(self, sparse_delta: Any, **options: Any) -> Any:
        """Assign ``IndexedSlices`` of a batch."""
        return self._change("batch_scatter_update", (sparse_delta,), options)

    def scatter_nd_add(self, indices: Any, updates: Any, **options: Any) -> Any:
        """Add at indices of elements or slices."""
        return self._change("scatter_nd_add", (indices, updates), options)

    def scatter_nd_sub(self, indices: Any, updates: Any, **options: Any) -> Any:
        """Subtract at indices of elements or slices."""
        return self._change("scatter_nd_sub", (indices, updates), options)

    def scatter_nd_update(self, indices: Any, updates: Any, **options: Any) -> Any:
        """Assign at indices of elements or slices."""
        return self._change("scatter_nd_update", (indices, updates), options)
