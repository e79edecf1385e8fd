import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.tensors import DumpParamAsImage, DumpTensorAsImage
from tpack.errors import CallbackError

cv2 = pytest.importorskip("cv2")


def dump(value, log_dir, kind=DumpTensorAsImage, **options):
    """Train one epoch and return what was written, {name: array}; three channels are red, green and blue."""
    tf.get_variable("layer/W", initializer=value, use_resource=True)
    FakeTrainer().train([kind("layer/W", **options)], epochs=(7, 7))
    read = {path.name: cv2.imread(str(path), cv2.IMREAD_UNCHANGED) for path in log_dir.glob("*.png")}
    return {name: array[:, :, ::-1] if array.ndim == 3 else array for name, array in read.items()}


def test_an_image_is_written_scaled_and_clipped(graph, log_dir):
    values = np.array([[-1.0, 0.0, 0.5], [0.25, 1.0, 2.0]], np.float32)
    written = dump(values, log_dir)
    assert list(written) == ["layer-W-ep007.png"]
    np.testing.assert_array_equal(written["layer-W-ep007.png"], [[0, 0, 128], [64, 255, 255]])


def test_colours_keep_their_order(graph, log_dir, rng):
    values = rng.integers(0, 256, size=(4, 5, 3)).astype(np.float32)
    written = dump(values, log_dir, prefix="rgb", scale=1)
    np.testing.assert_array_equal(written["rgb-ep007.png"], values)


@pytest.mark.parametrize(
    "map_func", [lambda w: w.transpose(3, 0, 1, 2), lambda w: list(w.transpose(3, 0, 1, 2)[..., 0])]
)
def test_several_images_are_numbered(graph, log_dir, rng, map_func):
    values = rng.uniform(size=(3, 4, 1, 2)).astype(np.float32)
    written = dump(values, log_dir, kind=DumpParamAsImage, map_func=map_func, prefix="filter")
    assert sorted(written) == ["filter-ep007-0.png", "filter-ep007-1.png"]
    for k in range(2):
        np.testing.assert_array_equal(written[f"filter-ep007-{k}.png"], np.rint(values[:, :, 0, k] * 255.0))


def test_what_is_no_image_is_an_error(graph, log_dir):
    with pytest.raises(CallbackError, match=r"got an image of shape \(2, 2, 2\): expected .*; use map_func"):
        dump(np.zeros([2, 2, 2], np.float32), log_dir)


def test_without_a_directory_there_is_an_error(graph):
    with pytest.raises(CallbackError, match=r"DumpTensorAsImage\(w\) got no logger directory"):
        FakeTrainer().setup([DumpTensorAsImage("w")])
