"""Photographs with edges drawn by several people."""

import os
from typing import Any

import numpy as np

from tpack.dataflow.dataset.files import check_name, data_dir, load_mat
from tpack.dataflow.images import read_image
from tpack.dataflow.sources import IndexedDataFlow
from tpack.errors import InputError
from tpack.utils.validation import check_arguments

_SOURCE = "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/resources.html"
_ROOT = os.path.join("BSR", "BSDS500", "data")
_HEIGHT, _WIDTH = 321, 481


@check_arguments
class BSDS500(IndexedDataFlow):
    """Yield ``[image, edges]``: uint8 of shape (321, 481, 3) in blue, green and red, and float32 of shape (321, 481).

    Edges are the fraction of people who drew one through that pixel. Upright images and edges are transposed. The files
    are the published ones, below ``BSR/BSDS500/data``; the edges need SciPy.

    Args:
        name: ``"train"``, ``"val"`` or ``"test"``.
        data_dir: the directory with ``BSR``, or that with ``images`` and ``groundTruth``; None is this data set's own
            below `get_dataset_path()`.

    Raises:
        InputError: There are no files, or an image has no edges.
    """

    def __init__(self, name: str, data_dir: str | os.PathLike[str] | None = None, shuffle: bool = True) -> None:
        super().__init__(bool(shuffle))
        self.name = check_name(self, name, ("train", "val", "test"))
        self._pairs = _find_pairs(data_dir, name)

    def __len__(self) -> int:
        return len(self._pairs)

    def _read(self, index: int) -> list[Any]:
        image_path, edges_path = self._pairs[index]
        image, edges = read_image(image_path), _read_edges(edges_path)
        if image.shape[:2] != edges.shape or sorted(edges.shape) != [_HEIGHT, _WIDTH]:
            raise InputError(
                f"{image_path} has shape {image.shape} and the edges in {edges_path} {edges.shape}: expected "
                f"{_HEIGHT} x {_WIDTH} or {_WIDTH} x {_HEIGHT}"
            )
        if edges.shape[0] == _HEIGHT:
            return [image, edges]
        return [np.ascontiguousarray(image.swapaxes(0, 1)), np.ascontiguousarray(edges.T)]


def _find_pairs(given: str | os.PathLike[str] | None, name: str) -> list[tuple[str, str]]:
    """Return the paths of the images of a part and of their edges."""
    folder = data_dir(given, "bsds500_data")
    roots = [
        root for root in (os.path.join(folder, _ROOT), folder) if os.path.isdir(os.path.join(root, "images", name))
    ]
    names = sorted(os.listdir(os.path.join(roots[0], "images", name))) if roots else []
    pairs = [
        (os.path.join(roots[0], "images", name, file), os.path.join(roots[0], "groundTruth", name, f"{file[:-4]}.mat"))
        for file in names
        if file.endswith(".jpg")
    ]
    if not pairs:
        images = os.path.join(_ROOT, "images", name, "*.jpg")
        raise InputError(f"{folder} has no {images}: unpack BSR_bsds500.tgz of {_SOURCE}; nothing is downloaded")
    missing = [edges for _, edges in pairs if not os.path.isfile(edges)]
    if missing:
        raise InputError(f"{missing[0]} is missing, and {len(missing) - 1} more: expected a file for each image")
    return pairs


def _read_edges(path: str) -> np.ndarray:
    """Return the fraction of people who drew an edge through each pixel."""
    (people,) = load_mat(path, "groundTruth")
    try:
        drawn = [np.asarray(cell["Boundaries"][0, 0]) > 0 for cell in people.ravel()]
        return np.asarray(np.mean(drawn, axis=0), np.float32)
    except (ValueError, IndexError, TypeError) as error:
        raise InputError(f"{path} has no cells with Boundaries: {error}") from error
