"""Items of examples."""

import cv2
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import run
from tpack.errors import ConfigError
from tpack.tf1.contrib.slim import tfexample_decoder as decoder

IMAGE = np.random.RandomState(0).randint(0, 255, (3, 4, 3)).astype("u1")


def example(**features):
    kinds = {"i": "int64_list", "f": "float_list", "b": "bytes_list"}
    made = tf.train.Example()
    for name, (kind, values) in features.items():
        getattr(made.features.feature[name], kinds[kind]).value.extend(values)
    return made.SerializeToString()


def png():
    return cv2.imencode(".png", IMAGE[:, :, ::-1])[1].tobytes()


def test_images(graph):
    keys = {"bytes": tf.FixedLenFeature([], tf.string), "format": tf.FixedLenFeature([], tf.string, "png")}
    for content, kind, shape in ((png(), b"png", None), (IMAGE.tobytes(), b"raw", [3, 4, 3])):
        handler = decoder.Image("bytes", "format", shape=shape)
        (image,) = decoder.TFExampleDecoder(keys, {"image": handler}).decode(
            example(bytes=("b", [content]), format=("b", [kind]))
        )
        assert image.shape.rank == 3
        np.testing.assert_array_equal(run(image), IMAGE)
    several = decoder.Image("bytes", "format", repeated=True)
    keys["bytes"] = tf.FixedLenFeature([2], tf.string)
    serialized = example(bytes=("b", [png()] * 2), format=("b", [b"png"]))
    (images,) = decoder.TFExampleDecoder(keys, {"images": several}).decode(serialized)
    np.testing.assert_array_equal(run(images), np.stack([IMAGE, IMAGE]))


def test_other_items(graph):
    keys = {
        "label": tf.FixedLenFeature([], tf.int64),
        "numbers": tf.VarLenFeature(tf.float32),
        "sizes": tf.FixedLenFeature([2], tf.int64),
        "places": tf.VarLenFeature(tf.int64),
        "none": tf.VarLenFeature(tf.float32),
        **{f"box/{side}": tf.VarLenFeature(tf.float32) for side in ("ymin", "xmin", "ymax", "xmax")},
    }
    handlers = {
        "label": decoder.Tensor("label"),
        "list": decoder.Tensor("numbers"),
        "matrix": decoder.Tensor("numbers", shape_keys="sizes"),
        "shaped": decoder.Tensor("numbers", shape=[4, 1]),
        "boxes": decoder.BoundingBox(prefix="box/"),
        "sum": decoder.ItemHandlerCallback(["label", "sizes"], lambda found: found["label"] + found["sizes"]),
        "backup": decoder.BackupHandler(decoder.Tensor("none"), decoder.Tensor("numbers")),
        "sparse": decoder.SparseTensor("places", "numbers", shape=[6], densify=True),
        "kept": decoder.SparseTensor("places", "numbers", shape=[6]),
    }
    made = decoder.TFExampleDecoder(keys, handlers)
    assert made.list_items() == list(handlers)
    boxes = {f"box/{side}": ("f", [float(number)]) for number, side in enumerate(("ymin", "xmin", "ymax", "xmax"))}
    numbers = {"numbers": ("f", [1.0, 2.0, 3.0, 4.0]), "places": ("i", [0, 2, 3, 5])}
    serialized = example(label=("i", [7]), sizes=("i", [2, 2]), **numbers, **boxes)
    results = dict(zip(handlers, run(made.decode(serialized)), strict=True))
    expected = {
        "label": 7,
        "list": [1, 2, 3, 4],
        "matrix": [[1, 2], [3, 4]],
        "shaped": [[1], [2], [3], [4]],
        "boxes": [[0, 1, 2, 3]],
        "sum": [9, 9],
        "backup": [1, 2, 3, 4],
        "sparse": [1, 0, 2, 3, 0, 4],
    }
    for name, wanted in expected.items():
        np.testing.assert_array_equal(results[name], wanted, err_msg=name)
    np.testing.assert_array_equal(results["kept"].indices, [[0], [2], [3], [5]])


def test_an_item_from_a_table(graph):
    class Table:
        def lookup(self, keys):
            return keys + 1

    (item,) = decoder.TFExampleDecoder(
        {"label": tf.FixedLenFeature([], tf.int64)}, {"label": decoder.LookupTensor("label", Table())}
    ).decode(example(label=("i", [7])))
    assert run(item) == 8


def test_what_cannot_be_is_refused(graph):
    made = decoder.TFExampleDecoder({}, {})
    for call, message in (
        (lambda: made.decode(example(), ["a"]), "items are to be some of"),
        (lambda: decoder.BoundingBox(["a"]), "expected four"),
        (lambda: decoder.Tensor("a", ["b"], [1]), "None with shape_keys"),
        (lambda: decoder.BackupHandler(1, 2), "expected an ItemHandler"),
        (lambda: decoder.SparseTensor().tensors_to_item({"indices": 1, "values": 2}), "got neither"),
    ):
        with pytest.raises(ConfigError, match=message):
            call()
