"""Edges that people drew: image and edges change alike, batches are of one shape each, and the edges are learned."""

import numpy as np
import pytest

from tests.helpers.dataset_trees import write_bsds500
from tests.helpers.run_script import run_script
from tests.integration.scripts import edges, edges_data


@pytest.fixture
def tree(tmp_path, rng):
    for part, count in (("train", 6), ("test", 3)):
        write_bsds500(tmp_path / "data", part, count, rng)
    return tmp_path / "data"


def test_edges_are_learned_from_images_of_many_shapes(tree, tmp_path):
    run = run_script(edges.main, tmp_path / "train", "--data", tree)

    assert run.last["edge_recall"] > 0.75
    # One pixel in twenty or so is of an edge.
    assert run.last["edge_precision"] > 0.4
    assert run.last["xentropy"] < run.stats[0]["xentropy"]


def test_edges_stay_where_the_image_has_them(tree):
    ds = edges_data.get_data("train", tree, 2)
    ds.reset_state()
    shapes = set()
    for _, (images, drawn) in zip(range(8), repeat(ds), strict=False):
        assert images.shape == (*drawn.shape, 3)
        assert images.shape[1] % 16 == images.shape[2] % 16 == 0
        shapes.add(drawn.shape)
        for image, edgemap in zip(images.astype(float), drawn, strict=True):
            slope = sum(np.abs(part).max(axis=2) for part in np.gradient(image, axis=(0, 1)))
            assert slope[edgemap == 1].mean() > 3 * slope[edgemap == 0].mean()
    assert len(shapes) > 1
    ds.close()


def repeat(ds):
    while True:
        yield from ds
