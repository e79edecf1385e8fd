"""The parts of the detector against loops in numpy: boxes, anchors, regions, the made set and average precision."""

import json
import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.examples import load_example
from tpack.errors import InputError

boxes, rpn, roi_heads, coco_ap, detection_data, made_shapes = (
    load_example(name, "detection")
    for name in ("boxes", "rpn", "roi_heads", "coco_ap", "detection_data", "made_shapes")
)


def random_boxes(rng, count, limit=100.0):
    corner = rng.uniform(0, limit * 0.7, (count, 2))
    return np.concatenate([corner, corner + rng.uniform(2, limit * 0.3, (count, 2))], axis=1).astype(np.float32)


def overlap(a, b):
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    area = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return width * height / (area - width * height)


def test_overlaps_are_those_of_each_pair(session8, rng):
    some, others = random_boxes(rng, 7), random_boxes(rng, 5)
    wanted = [[overlap(a, b) for b in others] for a in some]
    np.testing.assert_allclose(session8.run(boxes.overlaps(some, others)), wanted, atol=1e-6)
    np.testing.assert_allclose(coco_ap.overlaps(some, others, np.zeros(5, bool)), wanted, atol=1e-6)


def test_deltas_lead_from_an_anchor_to_a_box_and_back(session8, rng):
    anchors, wanted = random_boxes(rng, 6), random_boxes(rng, 6)
    deltas = boxes.encode(tf.constant(wanted), tf.constant(anchors))
    found, decoded = session8.run([deltas, boxes.decode(deltas, tf.constant(anchors))])
    np.testing.assert_allclose(decoded, wanted, rtol=1e-4, atol=1e-4)
    (x0, y0, x1, y1), (u0, v0, u1, v1) = anchors[0], wanted[0]
    by_hand = [
        ((u0 + u1) - (x0 + x1)) / 2 / (x1 - x0),
        ((v0 + v1) - (y0 + y1)) / 2 / (y1 - y0),
        math.log((u1 - u0) / (x1 - x0)),
        math.log((v1 - v0) / (y1 - y0)),
    ]
    np.testing.assert_allclose(found[0], by_hand, atol=1e-5)


def test_candidates_are_matched_as_a_loop_does(session8, rng):
    candidates, truth = random_boxes(rng, 60, 40.0), random_boxes(rng, 4, 40.0)
    nearest, status = session8.run(
        boxes.match(tf.constant(candidates), tf.constant(truth), background=0.3, foreground=0.6, is_best_kept=True)
    )
    table = np.array([[overlap(a, b) for b in truth] for a in candidates])
    for number, row in enumerate(table):
        is_best = any(row[k] > 0 and row[k] >= table[:, k].max() for k in range(4))
        wanted = 1 if row.max() >= 0.6 or is_best else 0 if row.max() < 0.3 else -1
        assert (nearest[number], status[number]) == (row.argmax(), wanted)
    assert set(status) == {1, 0, -1}


@pytest.mark.parametrize(("count", "most"), [(8, 0.5), (8, 0.1), (100, 0.9)])
def test_samples_are_of_each_kind_and_decided_by_the_key(session8, count, most):
    status = np.array([1, 0, -1, 0, 1, 1, 0, 1, 0, -1, 1, 0, 0, 0], np.int32)
    key = tf.placeholder(tf.int32, [2])
    tensors = boxes.sample(status, count, most_foreground=most, key=key)
    near, far = session8.run(tensors, {key: [3, 4]})
    assert len(near) == min(5, int(count * most))
    assert len(far) == min(7, count - len(near))
    assert set(status[near]) <= {1} and set(status[far]) == {0}
    assert len({*near, *far}) == len(near) + len(far)
    again, other = session8.run(tensors, {key: [3, 4]}), session8.run(tensors, {key: [3, 5]})
    np.testing.assert_array_equal(np.concatenate(again), np.concatenate([near, far]))
    assert np.concatenate(other).tolist() != [*near, *far]


@pytest.mark.parametrize("groups", [None, [0, 1] * 15])
def test_boxes_suppress_those_of_their_group(session8, rng, groups):
    some, scores = random_boxes(rng, 30, 30.0), rng.permutation(30).astype(np.float32)
    found = session8.run(boxes.suppress(tf.constant(some), scores, 12, 0.3, groups))
    kept = []
    for number in np.argsort(-scores):
        rivals = [k for k in kept if groups is None or groups[k] == groups[number]]
        if all(overlap(some[number], some[k]) <= 0.3 for k in rivals):
            kept.append(number)
    assert found.tolist() == kept[:12]


def test_anchors_stand_around_each_place(session8):
    found = session8.run(rpn.anchors_of(tf.zeros([1, 2, 3, 1]), 8))
    wanted = []
    for row in range(2):
        for column in range(3):
            x, y = (column + 0.5) * 8, (row + 0.5) * 8
            for ratio in rpn.RATIOS:
                width, height = 32 / math.sqrt(ratio), 32 * math.sqrt(ratio)
                wanted.append([x - width / 2, y - height / 2, x + width / 2, y + height / 2])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def bilinear(feature, y, x):
    """Return what lies at a point of a map, [H, W, C], each of whose values stands in the middle of its place."""
    height, width = feature.shape[:2]
    y, x = min(max(y - 0.5, 0), height - 1), min(max(x - 0.5, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = feature[top, left] * (left + 1 - x) + feature[top, right] * (x - left)
    lower = feature[bottom, left] * (left + 1 - x) + feature[bottom, right] * (x - left)
    return upper * (top + 1 - y) + lower * (y - top)


def test_regions_get_the_features_of_the_map_for_their_size(session8, rng):
    maps = [rng.normal(size=(1, 192 // s, 160 // s, 2)).astype(np.float32) for s in (4, 8, 16, 32)]
    regions = np.float32([[0, 0, 160, 192], [3, 4, 20, 31], [0, 0, 90, 60], [5, 8, 160, 190], [30, 40, 31, 42]])
    side = roi_heads.SIDE
    features = [tf.constant(one) for one in maps]
    found, levels, gradients = session8.run(
        [
            roi_heads.align(features, tf.constant(regions)),
            roi_heads.levels_of(tf.constant(regions)),
            tf.gradients(roi_heads.align(features, tf.constant(regions[1:2])), features),
        ]
    )
    sizes = [math.sqrt((r[2] - r[0]) * (r[3] - r[1])) for r in regions]
    assert levels.tolist() == [min(max(2 + math.floor(math.log2(s / roi_heads.CANONICAL)), 0), 3) for s in sizes]
    for number, (x0, y0, x1, y1) in enumerate(regions):
        stride = 4 * 2 ** levels[number]
        for row in range(side):
            for column in range(side):
                points = [
                    ((y0 + (y1 - y0) * (2 * row + a + 0.5) / (2 * side)) / stride,
                     (x0 + (x1 - x0) * (2 * column + b + 0.5) / (2 * side)) / stride)
                    for a in (0, 1) for b in (0, 1)
                ]  # fmt: skip
                wanted = np.mean([bilinear(maps[levels[number]][0], y, x) for y, x in points], axis=0)
                np.testing.assert_allclose(found[number, row, column], wanted, atol=1e-4)
    # What a region takes from one map, it gives back to that one alone, and all of it.
    assert [round(float(gradient.sum())) for gradient in gradients] == [2 * side * side, 0, 0, 0]


def scene(rng):
    """Return objects of three classes on 12 images, some of them crowds, and what a poor detector finds."""
    objects, found = [], {}
    for number in range(1, 13):
        count = int(rng.integers(0, 7))
        truth, labels = random_boxes(rng, count, 500.0), rng.integers(1, 4, count).astype(np.int32)
        areas = (truth[:, 2:] - truth[:, :2]).prod(axis=1) * rng.uniform(0.5, 1, count)
        objects.append(
            detection_data.Objects(number, "", truth, labels, areas.astype(np.float64), rng.random(count) < 0.15)
        )
        moved = np.repeat(truth, 2, axis=0) + rng.normal(0, 3, (2 * count, 4)).astype(np.float32)
        moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2] + 1)
        some = np.concatenate([moved, random_boxes(rng, 4, 500.0)])
        guesses = np.concatenate([np.repeat(labels, 2), rng.integers(1, 4, 4)]).astype(np.int32)
        guesses = np.where(rng.random(len(guesses)) < 0.2, rng.integers(1, 4, len(guesses)), guesses)
        found[number] = coco_ap.Found(some, rng.integers(0, 9, len(some)) / 9, guesses)
    return objects, found


def test_average_precision_is_that_of_pycocotools():
    """The figures are what pycocotools 2.0.11 computes of this scene, with crowds, equal scores and all sizes."""
    objects, found = scene(np.random.default_rng(5))
    averages = coco_ap.average_precision(objects, found, num_classes=3)
    figures = {
        "AP": 0.3109625975245302,
        "AP50": 0.4835910315636741,
        "AP75": 0.3323022457281332,
        "APsmall": 0.2850847584758475,
        "APmedium": 0.36889925990647515,
        "APlarge": 0.6015621562156216,
    }
    assert averages == pytest.approx(figures, abs=1e-9)


def test_average_precision_of_what_is_perfect_and_of_nothing():
    objects, _ = scene(np.random.default_rng(6))
    perfect = {one.number: coco_ap.Found(one.boxes, np.ones(len(one.labels)), one.labels) for one in objects}
    assert coco_ap.average_precision(objects, perfect, 3)["AP"] == pytest.approx(1)
    assert coco_ap.average_precision(objects, {}, 3)["AP"] == 0
    assert math.isnan(coco_ap.average_precision([], {}, 3)["AP50"])


def test_a_made_set_is_the_same_each_time_and_has_boxes_around_its_shapes(tmp_path):
    for name in ("a", "b"):
        made_shapes.write(tmp_path / name, train=3, val=1, seed=4)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*"))
    assert len(files) == 6
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    objects, names = detection_data.read_coco(tmp_path / "a", "train")
    assert (names, len(objects)) == (["circle", "square", "triangle"], 3)
    for one in objects:
        sizes = one.boxes[:, 2:] - one.boxes[:, :2]
        # A circle fills pi / 4 of its box; a square or a triangle at least its half, or near to it.
        filled = one.areas / sizes.prod(axis=1)
        assert (filled > 0.45).all() and (filled <= 1).all()
        assert filled[one.labels == 1] == pytest.approx(math.pi / 4, abs=0.06)


def test_images_to_train_on_are_mirrored_with_their_boxes(tmp_path):
    made_shapes.write(tmp_path, train=6, val=1)
    objects, _ = detection_data.read_coco(tmp_path, "train")
    plain = {int(key[0]): (image, truth) for image, truth, _, key in detection_data.evaluation_flow(objects)}
    flow = detection_data.training_flow(objects)
    flow.reset_state()
    kinds = set()
    for _ in range(4):
        for image, truth, _, key in flow:
            before, boxes_before = plain[int(key[0])]
            is_mirrored = not np.array_equal(image, before)
            kinds.add(is_mirrored)
            width = before.shape[1]
            if is_mirrored:
                np.testing.assert_array_equal(image[:, ::-1], before)
                truth = np.stack([width - truth[:, 2], truth[:, 1], width - truth[:, 0], truth[:, 3]], axis=1)
            np.testing.assert_array_equal(truth, boxes_before)
    assert kinds == {True, False}


def test_crowds_empty_boxes_and_gaps_between_categories_are_taken_as_coco_means_them(tmp_path):
    (tmp_path / "annotations").mkdir()
    ones = [
        {"image_id": 7, "category_id": 90, "bbox": [1, 2, 30, 4], "area": 50, "iscrowd": 0},
        {"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 9, "iscrowd": 1},
        {"image_id": 7, "category_id": 3, "bbox": [5, 6, 0, 4], "area": 0},
    ]
    content = {
        "images": [
            {"id": 7, "file_name": "x.png", "height": 20, "width": 25},
            {"id": 8, "file_name": "y.png", "height": 9, "width": 9},
        ],
        "annotations": ones,
        "categories": [{"id": 90, "name": "b"}, {"id": 3, "name": "a"}],
    }
    path = tmp_path / "annotations" / "instances_val.json"
    path.write_text(json.dumps(content))
    objects, names = detection_data.read_coco(tmp_path, "val")
    assert names == ["a", "b"]
    assert objects[0].labels.tolist() == [2, 1, 1]
    # What stands out of the image is cut off.
    assert objects[0].boxes[0].tolist() == [1, 2, 25, 6]
    assert objects[1].boxes.shape == (0, 4)
    assert [len(one.labels) for one in map(detection_data.without_crowds, objects)] == [1, 0]
    with pytest.raises(InputError, match="none of 1 images has an object to train on"):
        detection_data.training_flow(objects[1:])
    path.write_text("{")
    with pytest.raises(InputError, match="cannot be read as annotations of COCO"):
        detection_data.read_coco(tmp_path, "val")
