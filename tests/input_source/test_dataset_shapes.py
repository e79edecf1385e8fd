"""Shapes that a tf.data pipeline does not know are checked at each element, and known to the model."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE, running
from tpack.dataflow import DataFromList
from tpack.errors import InputError
from tpack.input_source import TFDatasetInput
from tpack.input_source.dataset import _with_checked_shapes


def as_tuple(image, label):
    return image, label


def as_dict(image, label):
    return {"label": label, "image": image}


def dataset_of(images, change=as_tuple):
    """Return a function that makes a dataset of images, which knows nothing of their shapes."""
    ds = DataFromList([[np.zeros(shape, np.float32), k] for k, shape in enumerate(images)], shuffle=False)
    return lambda: TFDatasetInput.dataflow_to_dataset(ds, [tf.float32, tf.int32]).map(change)


@pytest.mark.parametrize("change", [as_tuple, as_dict])
def test_the_model_knows_the_shapes_of_the_signature(graph, change):
    with running(TFDatasetInput(dataset_of([[3, 2], [5, 2]], change))) as run:
        image, label = run.inputs[0]
        assert (image.shape.as_list(), label.shape.as_list()) == ([None, 2], [])
        assert run.labels(2) == [0, 1]


@pytest.mark.parametrize("change", [as_tuple, as_dict])
@pytest.mark.parametrize("shape", [[3, 4], [2], []])
def test_an_element_of_a_wrong_shape_is_named(graph, change, shape):
    shown = r"\[" + " ".join(map(str, shape)) + r"\]"
    message = rf"element 1 of the dataset: component 0 \(image\) has shape {shown}, expected \(None, 2\)"
    with running(TFDatasetInput(dataset_of([[3, 2], shape], change))) as run:
        assert run.labels(1) == [0]
        with pytest.raises(InputError, match=message):
            run.step()


def test_a_single_tensor_is_checked(graph):
    source = TFDatasetInput(dataset_of([[3, 2], [3]], lambda image, label: image))
    with running(source, SIGNATURE[:1]) as run:
        assert run.step()[0][0].shape == (3, 2)
        with pytest.raises(InputError, match=r"element 1 of the dataset: component 0 \(image\) has shape \[3\]"):
            run.step()


def test_a_dataset_that_knows_its_shapes_stays_as_it_is(graph):
    dataset = tf.data.Dataset.from_tensors((tf.zeros([3, 2]), 0))
    assert _with_checked_shapes(dataset, [0, 1], SIGNATURE) is dataset
