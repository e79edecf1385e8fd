"""``tf.contrib.framework.nest``: structures of tensors, by TensorFlow's own functions under the names of 1.15."""

from typing import Any

from tpack.compat.runtime import nest as _nest

# Names that TensorFlow changed.
_NEWER = {"is_sequence": "is_nested", "is_sequence_or_composite": "is_nested_or_composite"}


def __getattr__(name: str) -> Any:
    return getattr(_nest, _NEWER.get(name, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_NEWER, *dir(_nest)})
