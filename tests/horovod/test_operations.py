"""Compression, the names of reductions, and the questions about a build."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.horovod as hvd
from tpack.errors import MissingNameError


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


def test_what_was_built_is_answered() -> None:
    assert hvd.gloo_built()
    assert hvd.gloo_enabled()
    for question in (hvd.mpi_built, hvd.mpi_enabled, hvd.mpi_threads_supported, hvd.nccl_built, hvd.ddl_built):
        assert not question()
    assert not hvd.ccl_built()
    assert hvd.cuda_built() == tf.test.is_built_with_cuda()
    assert hvd.rocm_built() == tf.test.is_built_with_rocm()
    assert hvd.gpu_available() in (True, False)
    for timeline in (lambda: hvd.start_timeline("x"), hvd.stop_timeline):
        with pytest.raises(NotImplementedError, match="use tf.RunOptions"):
            timeline()


@pytest.mark.parametrize("name", ["DistributedGradientTape", "elastic", "run", "SyncBatchNormalization"])
def test_names_that_cannot_be_had_say_what_to_use(name: str) -> None:
    with pytest.raises(MissingNameError, match=f"tpack.horovod has no {name}: use "):
        getattr(hvd, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hvd.nothing  # noqa: B018 (the access raises)


def test_reductions_print_their_names() -> None:
    assert [repr(each) for each in (hvd.Average, hvd.Sum, hvd.Adasum)] == ["Average", "Sum", "Adasum"]
    assert np.unique([each.name for each in (hvd.Min, hvd.Max, hvd.Product)]).size == 3
