"""Compression of tensors before they are sent, under Horovod's names."""

from typing import Any

import tensorflow.compat.v1 as tf


class Compressor:
    """Base of own compressions of a tensor before it is sent, with two static methods."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Return what is reduced, and what `decompress` needs besides."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        """Return the reduced tensor as it was before."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Return the tensor."""
        return tensor, None

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        """Return the tensor."""
        return tensor


class FP16Compressor(Compressor):
    """Rounds floating-point tensors to float16; gradients are added in float32 all the same."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Return the tensor in float16, and its dtype."""
        return (tf.cast(tensor, tf.float16) if tensor.dtype.is_floating else tensor), tensor.dtype.base_dtype

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        """Return the tensor in its former dtype."""
        return tf.cast(tensor, ctx) if ctx.is_floating else tensor


class Compression:
    """The compressions that are there."""

    none = NoneCompressor
    fp16 = FP16Compressor
