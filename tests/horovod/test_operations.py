"""The names of reductions, the questions about a build, and names that cannot be had."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.horovod as hvd
from tpack.errors import MissingNameError


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
