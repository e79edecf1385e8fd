"""Edges drawn by people, from small files in the published format."""

import numpy as np
import pytest
import scipy.io

from tests.helpers.dataset_files import write_jpeg
from tests.helpers.images import picture
from tpack.dataflow.dataset.bsds500 import BSDS500
from tpack.errors import ConfigError, InputError


def write(folder, name, shape, rng, people=5):
    """Write an image and what some people drew; return both as they come back."""
    image = write_jpeg(folder / "images" / "train" / f"{name}.jpg", picture(rng, (*shape, 3)))
    drawn = [rng.random(shape) < 0.2 for _ in range(people)]
    cells = np.empty((1, people), dtype=object)
    for number, edges in enumerate(drawn):
        cells[0, number] = {"Segmentation": np.zeros(shape, np.uint16), "Boundaries": edges.astype(np.uint8)}
    path = folder / "groundTruth" / "train" / f"{name}.mat"
    path.parent.mkdir(parents=True, exist_ok=True)
    scipy.io.savemat(path, {"groundTruth": cells})
    return image, np.mean(drawn, axis=0)


def ready(*args, **options):
    ds = BSDS500(*args, **options)
    ds.reset_state()
    return ds


@pytest.mark.parametrize("inside", ["BSR/BSDS500/data", "."])
def test_points_are_images_and_edges(inside, tmp_path, rng):
    image, edges = write(tmp_path / inside, "1001", (321, 481), rng)
    ((found, drawn),) = ready("train", tmp_path)
    np.testing.assert_array_equal(found, image)
    np.testing.assert_allclose(drawn, edges, rtol=1e-6)
    assert drawn.dtype == np.float32


def test_upright_images_are_transposed(tmp_path, rng):
    image, edges = write(tmp_path, "1002", (481, 321), rng, people=3)
    ((found, drawn),) = ready("train", tmp_path)
    np.testing.assert_array_equal(found, image.swapaxes(0, 1))
    np.testing.assert_allclose(drawn, edges.T, rtol=1e-6)


def test_order_is_that_of_the_names(tmp_path, rng):
    wanted = [write(tmp_path, name, (321, 481), rng)[0] for name in ("2", "3")]
    for (image, _), expected in zip(ready("train", tmp_path, shuffle=False), wanted, strict=True):
        np.testing.assert_array_equal(image, expected)
    assert BSDS500("train", tmp_path).shuffle


def test_other_sizes_are_refused(tmp_path, rng):
    write(tmp_path, "1", (20, 30), rng)
    with pytest.raises(InputError, match="expected 321 x 481 or 481 x 321"):
        list(ready("train", tmp_path))


def test_other_annotations_are_refused(tmp_path, rng):
    write(tmp_path, "1", (321, 481), rng)
    scipy.io.savemat(tmp_path / "groundTruth" / "train" / "1.mat", {"groundTruth": np.zeros((1, 2))})
    with pytest.raises(InputError, match=r"1\.mat has no cells with Boundaries"):
        list(ready("train", tmp_path))


def test_image_without_edges_is_refused(tmp_path, rng):
    write(tmp_path, "1", (20, 30), rng)
    (tmp_path / "groundTruth" / "train" / "1.mat").unlink()
    with pytest.raises(InputError, match=r"1\.mat is missing, and 0 more"):
        BSDS500("train", tmp_path)


def test_other_part_and_missing_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="BSDS500 got name='extra': expected one of 'train', 'val', 'test'"):
        BSDS500("extra", tmp_path)
    with pytest.raises(
        InputError, match=r"has no BSR/BSDS500/data/images/val/\*\.jpg: unpack BSR_bsds500\.tgz of https"
    ):
        BSDS500("val", tmp_path)
