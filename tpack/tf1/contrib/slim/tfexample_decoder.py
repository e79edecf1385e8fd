"""Decoders of ``tf.Example``: what the features of an example are, and how items such as images are made of them."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.signatures import like, parameter
from tpack.utils.validation import mismatch, shown

__all__ = [
    "BackupHandler",
    "BoundingBox",
    "DataDecoder",
    "Image",
    "ItemHandler",
    "ItemHandlerCallback",
    "LookupTensor",
    "SparseTensor",
    "TFExampleDecoder",
    "Tensor",
]

Features = Mapping[str, Any]


class DataDecoder(abc.ABC):
    """The base of all decoders of serialized data."""

    @abc.abstractmethod
    def decode(self, data: tf.Tensor, items: Sequence[str]) -> list[Any]:
        """Return the tensors of some items of an example."""

    @abc.abstractmethod
    def list_items(self) -> list[str]:
        """Return the names of the items that there are."""


class ItemHandler(abc.ABC):
    """Makes an item of features.

    Args:
        keys: of the features, or of one.
    """

    def __init__(self, keys: str | Sequence[str]) -> None:
        self._keys = [keys] if isinstance(keys, str) else list(keys)

    @property
    def keys(self) -> list[str]:
        """The keys of the features."""
        return self._keys

    @abc.abstractmethod
    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """Return the item."""


class ItemHandlerCallback(ItemHandler):
    """Makes an item by a function.

    Args:
        keys: of the features.
        func: takes a dict of them by their keys.
    """

    def __init__(self, keys: str | Sequence[str], func: Callable[[Features], Any]) -> None:
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """Return what the function makes of the features."""
        return self._func(keys_to_tensors)


class BoundingBox(ItemHandler):
    """Makes boxes of the four features of their sides.

    Args:
        keys: of the sides: ymin, xmin, ymax and xmax by default.
        prefix: of the keys.

    Raises:
        ConfigError: There are not four keys.
    """

    def __init__(self, keys: Sequence[str] | None = None, prefix: str = "") -> None:
        sides = ["ymin", "xmin", "ymax", "xmax"] if keys is None else list(keys)
        if len(sides) != 4:
            raise ConfigError(mismatch(self, "keys", keys, "four"))
        super().__init__([prefix + side for side in sides])

    def tensors_to_item(self, keys_to_tensors: Features) -> tf.Tensor:
        """Return the boxes [number, 4]."""
        return tf.stack([_dense(keys_to_tensors[key]) for key in self._keys], 1)


class Tensor(ItemHandler):
    """Makes an item of one feature.

    Args:
        tensor_key: of the feature.
        shape_keys: of the features with the sizes, or with the whole shape.
        shape: of the item; None for that of the feature. Either this or the keys.
        default_value: what stands where a sparse feature has nothing.

    Raises:
        ConfigError: There are both.
    """

    def __init__(
        self,
        tensor_key: str,
        shape_keys: str | Sequence[str] | None = None,
        shape: Sequence[int] | None = None,
        default_value: Any = 0,
    ) -> None:
        if shape_keys and shape is not None:
            raise ConfigError(mismatch(self, "shape", shape, "None with shape_keys", "one of the two"))
        self._shape_keys = [shape_keys] if isinstance(shape_keys, str) else list(shape_keys or ())
        self._tensor_key, self._shape, self._default_value = tensor_key, shape, default_value
        super().__init__([tensor_key, *self._shape_keys])

    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """Return the feature in its shape; a sparse one without a shape as it is, made dense."""
        tensor = keys_to_tensors[self._tensor_key]
        shape: Any = self._shape
        if self._shape_keys:
            sizes = [tf.reshape(_dense(keys_to_tensors[key]), [-1]) for key in self._shape_keys]
            shape = tf.cast(tf.concat(sizes, 0), tf.int32)
        if isinstance(tensor, tf.SparseTensor):
            if shape is not None:
                tensor = tf.sparse_reshape(tensor, shape)
            tensor = tf.sparse_tensor_to_dense(tensor, self._default_value)
        elif shape is not None:
            tensor = tf.reshape(tensor, shape)
        return tensor


class LookupTensor(Tensor):
    """Makes an item of one feature by a table.

    Args:
        table: the table.
        **given: see `Tensor`.
    """

    @like(Tensor.__init__, after={"tensor_key": {"table": parameter("table", Any)}}, default_value="")
    def __init__(self, table: Any, **given: Any) -> None:
        self._table = table
        super().__init__(**given)

    def tensors_to_item(self, keys_to_tensors: Features) -> tf.Tensor:
        """Return what the table has for the feature."""
        return self._table.lookup(super().tensors_to_item(keys_to_tensors))


class BackupHandler(ItemHandler):
    """Makes an item by one handler, or by another one where that has nothing.

    Args:
        handler: the first.
        backup: the other.

    Raises:
        ConfigError: One is not a handler.
    """

    def __init__(self, handler: ItemHandler, backup: ItemHandler) -> None:
        for name, given in (("handler", handler), ("backup", backup)):
            if not isinstance(given, ItemHandler):
                raise ConfigError(mismatch(self, name, given, "an ItemHandler"))
        self._handler, self._backup = handler, backup
        super().__init__([*handler.keys, *backup.keys])

    def tensors_to_item(self, keys_to_tensors: Features) -> tf.Tensor:
        """Return the item of the first handler if it has elements, else that of the other."""
        item = self._handler.tensors_to_item(keys_to_tensors)
        return tf.cond(tf.equal(tf.size(item), 0), lambda: self._backup.tensors_to_item(keys_to_tensors), lambda: item)


class SparseTensor(ItemHandler):
    """Makes a sparse tensor of features with its indices and values.

    Args:
        indices_key: of the indices, ``"indices"`` by default.
        values_key: of the values, ``"values"`` by default.
        shape_key: of the shape.
        shape: the shape in place of that.
        densify: return a dense tensor.
        default_value: what stands in it where there is nothing.
    """

    def __init__(
        self,
        indices_key: str | None = None,
        values_key: str | None = None,
        shape_key: str | None = None,
        shape: Sequence[int] | None = None,
        densify: bool = False,
        default_value: Any = 0,
    ) -> None:
        self._indices_key, self._values_key = indices_key or "indices", values_key or "values"
        self._shape_key, self._shape, self._densify = shape_key, shape, densify
        self._default_value = default_value
        super().__init__([self._indices_key, self._values_key, *([shape_key] if shape_key else [])])

    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """Return the tensor; raise ConfigError if there is no shape."""
        indices, values = (keys_to_tensors[key] for key in (self._indices_key, self._values_key))
        shape = _dense(keys_to_tensors[self._shape_key]) if self._shape_key else self._shape
        if shape is None:
            raise ConfigError("SparseTensor got neither shape_key nor shape: expected one of them")
        positions = tf.cast(_dense(indices), tf.int64)
        if positions.shape.rank == 1:
            positions = tf.expand_dims(positions, 1)
        tensor = tf.SparseTensor(positions, _dense(values), tf.cast(shape, tf.int64))
        return tf.sparse_tensor_to_dense(tensor, self._default_value) if self._densify else tensor


class Image(ItemHandler):
    """Makes an image of its encoded bytes and the name of their format.

    Args:
        image_key: of the bytes, ``"image/encoded"`` by default.
        format_key: of the format, ``"image/format"`` by default. ``raw`` are bytes that are the numbers themselves.
        shape: of the image; None for an unknown one.
        channels: how many.
        dtype: of the numbers.
        repeated: the bytes are those of several images.
        dct_method: how JPEG images are decoded.
    """

    def __init__(
        self,
        image_key: str | None = None,
        format_key: str | None = None,
        shape: Sequence[int] | None = None,
        channels: int | None = 3,
        dtype: tf.DType = tf.uint8,
        repeated: bool = False,
        dct_method: str = "",
    ) -> None:
        self._image_key, self._format_key = image_key or "image/encoded", format_key or "image/format"
        self._shape, self._channels, self._dtype = shape, channels, dtype
        self._repeated, self._dct_method = repeated, dct_method
        super().__init__([self._image_key, self._format_key])

    def tensors_to_item(self, keys_to_tensors: Features) -> tf.Tensor:
        """Return the image, or several."""
        encoded, kind = (keys_to_tensors[key] for key in self._keys)
        if self._repeated:
            return tf.map_fn(lambda one: self._decode(one, kind), _dense(encoded), dtype=self._dtype)
        return self._decode(encoded, kind)

    def _decode(self, encoded: tf.Tensor, kind: tf.Tensor) -> tf.Tensor:
        encoded, kind = tf.reshape(encoded, []), tf.reshape(kind, [])

        def decode_image() -> tf.Tensor:
            decoded = tf.image.decode_image(encoded, self._channels, expand_animations=False)
            return tf.cast(decoded, self._dtype)

        def decode_jpeg() -> tf.Tensor:
            decoded = tf.image.decode_jpeg(encoded, self._channels, dct_method=self._dct_method)
            return tf.cast(decoded, self._dtype)

        def decode_raw() -> tf.Tensor:
            return tf.decode_raw(encoded, self._dtype)

        def decode() -> tf.Tensor:
            return tf.cond(tf.io.is_jpeg(encoded), decode_jpeg, decode_image)

        image = tf.cond(tf.logical_or(tf.equal(kind, "raw"), tf.equal(kind, "RAW")), decode_raw, decode)
        if self._shape is not None:
            return tf.reshape(image, self._shape)
        image.set_shape([None, None, self._channels])
        return image


class TFExampleDecoder(DataDecoder):
    """Decodes serialized examples.

    Args:
        keys_to_features: the features by their keys, as ``tf.parse_single_example`` takes them.
        items_to_handlers: an `ItemHandler` for each item.
    """

    def __init__(self, keys_to_features: Features, items_to_handlers: Mapping[str, ItemHandler]) -> None:
        self._keys_to_features, self._items_to_handlers = dict(keys_to_features), dict(items_to_handlers)

    def list_items(self) -> list[str]:
        """Return the names of the items."""
        return list(self._items_to_handlers)

    def decode(self, serialized_example: tf.Tensor, items: Sequence[str] | None = None) -> list[Any]:
        """Return the tensors of some items of an example; all by default.

        Raises:
            ConfigError: There is no handler for an item.
        """
        for item in items or ():
            if item not in self._items_to_handlers:
                raise ConfigError(f"items are to be some of {', '.join(self._items_to_handlers)}, got {shown(item)}")
        example = tf.parse_single_example(serialized_example, self._keys_to_features)
        for key, feature in self._keys_to_features.items():
            if isinstance(feature, tf.FixedLenFeature):
                example[key] = tf.reshape(example[key], feature.shape)
        handlers = [self._items_to_handlers[item] for item in items or self._items_to_handlers]
        return [handler.tensors_to_item({key: example[key] for key in handler.keys}) for handler in handlers]


def _dense(tensor: Any) -> tf.Tensor:
    return tensor.values if isinstance(tensor, tf.SparseTensor) else tensor
