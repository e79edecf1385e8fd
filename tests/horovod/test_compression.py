"""Compression of tensors before they are sent."""

import pytest
import tensorflow.compat.v1 as tf

import tpack.horovod as hvd


@pytest.mark.usefixtures("graph")
def test_compression_to_float16_goes_back_to_the_former_dtype() -> None:
    for dtype in (tf.float32, tf.float64, tf.int32):
        number = tf.constant([1, 2], dtype)
        sent, context = hvd.Compression.fp16.compress(number)
        assert sent.dtype == (tf.float16 if dtype.is_floating else dtype)
        assert hvd.Compression.fp16.decompress(sent, context).dtype == dtype
        assert hvd.Compression.none.compress(number) == (number, None)


def test_own_compressions_say_how() -> None:
    for method in (lambda: hvd.Compressor.compress(None), lambda: hvd.Compressor.decompress(None, None)):
        with pytest.raises(NotImplementedError):
            method()


def test_the_module_has_horovods_path() -> None:
    assert hvd.compression.Compression is hvd.Compression
