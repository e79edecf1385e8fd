"""Average precision as COCO defines it: over ten thresholds of overlap, and by the size of objects.

A detection counts as right when it overlaps a true box, of its class and not taken by a better detection, by a
threshold at least. Crowds, and objects of another size than is asked for, count neither way, and nor does what finds
them.

Source:
    Lin et al., "Microsoft COCO: Common Objects in Context", https://arxiv.org/abs/1405.0312
    https://cocodataset.org/#detection-eval
"""

from dataclasses import dataclass

import numpy as np

from tpack import Inferencer

THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
AREAS = {"": (0, np.inf), "small": (0, 32**2), "medium": (32**2, 96**2), "large": (96**2, np.inf)}
MOST_FOUND = 100


@dataclass(frozen=True)
class Found:
    """What was found on an image, the best first.

    Attributes:
        boxes: [D, 4].
        scores: [D].
        labels: [D].
    """

    boxes: np.ndarray
    scores: np.ndarray
    labels: np.ndarray


def overlaps(boxes, truth, is_crowd):
    """Return intersection over union, [D, N]; with a crowd, how much of the box, [D, 4], is in the true one, [N, 4]."""
    lower = np.maximum(boxes[:, None, :2], truth[:, :2])  # [D, N, 2]
    shared = (np.minimum(boxes[:, None, 2:], truth[:, 2:]) - lower).clip(0).prod(axis=2)  # [D, N]
    areas, true_areas = ((some[:, 2:] - some[:, :2]).prod(axis=1) for some in (boxes, truth))
    return shared / np.maximum(areas[:, None] + np.where(is_crowd, 0, true_areas - shared), 1e-12)


def match(found, is_ignored, is_crowd):
    """Give each detection, the best first, what it overlaps most of what is left, at each of T thresholds.

    Args:
        found: overlaps, [D, N].
        is_ignored: [N]; such an object is taken where there is no other.
        is_crowd: [N]; a crowd can be taken again and again.

    Returns:
        Whether each is right, and whether it took what counts neither way; [T, D] both.
    """
    is_free = np.ones([len(THRESHOLDS), found.shape[1]], bool)  # [T, N]
    rows = np.arange(len(THRESHOLDS))
    is_right, is_neither = np.zeros([2, len(THRESHOLDS), len(found)], bool)
    for number, overlap in enumerate(found if found.shape[1] else ()):
        is_enough = is_free & (overlap >= THRESHOLDS[:, None] - 1e-10)  # [T, N]
        # What counts comes before what does not, however much it overlaps.
        values = np.where(is_enough, overlap + 2 * ~is_ignored, -1.0)
        # Of two that overlap as much, the last.
        best = values.shape[1] - 1 - values[:, ::-1].argmax(axis=1)  # [T]
        is_some = values[rows, best] >= 0
        is_right[:, number] = is_some & ~is_ignored[best]
        is_neither[:, number] = is_some & is_ignored[best]
        is_free[rows[is_some], best[is_some]] = is_crowd[best[is_some]]
    return is_right, is_neither


def precision_of(scores, is_right, is_neither, num_objects):
    """Return the mean over all recalls of the best precision that is had with as much recall or more, [T]."""
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(is_right[:, order], axis=1)  # [T, D]
    wrong = np.cumsum(~is_right[:, order] & ~is_neither[:, order], axis=1)
    precision = right / np.maximum(right + wrong, 1)
    precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    means = []
    for each_right, each_precision in zip(right, precision, strict=True):
        places = np.searchsorted(each_right / num_objects, RECALLS)
        means.append(np.append(each_precision, 0.0)[places].mean())
    return np.array(means)


def class_precision(objects, found, label, limits):
    """Return the average precision of a class at each threshold, [T]; None if there is no such object.

    Args:
        objects: what is on each image, as `detection_data.read_coco` returns it.
        found: {number of the image: `Found`}.
        label: of the class.
        limits: the least and largest area of the objects that count.
    """
    scores, is_right, is_neither, num_objects = [], [], [], 0
    for one in objects:
        is_it = one.labels == label
        areas, is_crowd = one.areas[is_it], one.is_crowd[is_it]
        is_ignored = is_crowd | (areas < limits[0]) | (areas > limits[1])
        num_objects += (~is_ignored).sum()
        if one.number not in found:
            continue
        there = found[one.number]
        mine = np.flatnonzero(there.labels == label)
        mine = mine[np.argsort(-there.scores[mine], kind="stable")][:MOST_FOUND]
        boxes = there.boxes[mine].astype(np.float64)
        right, neither = match(overlaps(boxes, one.boxes[is_it], is_crowd), is_ignored, is_crowd)
        sizes = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
        # A detection of another size that is wrong is none of these.
        neither |= ~right & ((sizes < limits[0]) | (sizes > limits[1]))
        scores.append(there.scores[mine])
        is_right.append(right)
        is_neither.append(neither)
    if not num_objects:
        return None
    if not scores:
        return np.zeros(len(THRESHOLDS))
    is_right, is_neither = np.concatenate(is_right, axis=1), np.concatenate(is_neither, axis=1)
    return precision_of(np.concatenate(scores), is_right, is_neither, num_objects)


def average_precision(objects, found, num_classes):
    """Return the six averages of COCO: `AP`, `AP50`, `AP75`, `APsmall`, `APmedium` and `APlarge`.

    One that is of nothing, such as that of large objects where there are none, is NaN.
    """
    result = {}
    for name, limits in AREAS.items():
        each = [class_precision(objects, found, label, limits) for label in range(1, num_classes + 1)]
        table = np.array([one for one in each if one is not None]).reshape(-1, len(THRESHOLDS))  # [C, T]
        result[f"AP{name}"] = table.mean() if len(table) else np.nan
        if not name:
            result |= {f"AP{t}": table[:, (t - 50) // 5].mean() if len(table) else np.nan for t in (50, 75)}
    return result


class AveragePrecision(Inferencer):
    """Computes the averages of COCO, of what the model finds on all images.

    Args:
        objects: what is on the images.
        num_classes: C.
    """

    def __init__(self, objects, num_classes):
        self.objects = objects
        self.num_classes = num_classes

    def _before_inference(self):
        self.found = {}

    def _get_fetches(self):
        return ["number", "found_boxes", "found_scores", "found_labels"]

    def _on_fetches(self, results):
        number, *found = results
        self.found[int(number)] = Found(*found)

    def _after_inference(self):
        averages = average_precision(self.objects, self.found, self.num_classes)
        return {name: value for name, value in averages.items() if not np.isnan(value)}
