"""The digits of the tutorials: what `read_data_sets` returns, and how batches go through it, epoch after epoch."""

import gzip

import numpy as np
import pytest

import tpack.tf1 as tf
from tests.helpers.dataset_files import idx_bytes
from tpack.errors import ConfigError, InputError, WrongTypeError
from tpack.tf1 import input_data
from tpack.utils.rng import fix_rng_seed

NUM = {"train": 10, "t10k": 4}


@pytest.fixture
def files(tmp_path, rng):
    """The four files, some compressed; return the directory, and images and labels by part."""
    arrays = {}
    for part, count in NUM.items():
        images, labels = rng.integers(256, size=(count, 28, 28)), np.arange(count) % 10
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images)))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
        arrays[part] = images.astype(np.uint8), labels
    return tmp_path, arrays


def test_the_first_images_validate_and_the_rest_trains(files):
    folder, arrays = files
    sets = input_data.read_data_sets(folder, validation_size=3)
    images, labels = arrays["train"]
    assert [part.num_examples for part in sets] == [7, 3, 4]
    np.testing.assert_array_equal(sets.validation.labels, labels[:3])
    np.testing.assert_allclose(sets.train.images, images[3:].reshape(7, 784) / 255, rtol=1e-6)
    assert (sets.test.images.dtype, sets.test.labels.dtype) == (np.float32, np.uint8)


def test_images_and_labels_come_in_other_forms(files):
    folder, arrays = files
    sets = input_data.read_data_sets(str(folder), False, True, tf.uint8, False, 0)
    np.testing.assert_array_equal(sets.train.images, arrays["train"][0][..., None])
    np.testing.assert_array_equal(sets.train.labels, np.eye(10))
    assert (sets.train.images.dtype, sets.validation.num_examples) == (np.uint8, 0)


def test_batches_go_on_in_the_next_epoch_as_those_of_tensorflow_1():
    """The numbers are those that TensorFlow 1.15 gives."""
    data = input_data.DataSet(np.zeros([10, 1, 1, 1], np.uint8), np.arange(10))
    found = []
    for _ in range(6):
        _, labels = data.next_batch(4, shuffle=False)
        found.append((labels.tolist(), data.epochs_completed))
    assert found == [
        ([0, 1, 2, 3], 0),
        ([4, 5, 6, 7], 0),
        ([8, 9, 0, 1], 1),
        ([2, 3, 4, 5], 1),
        ([6, 7, 8, 9], 1),
        ([0, 1, 2, 3], 2),
    ]


def test_each_epoch_has_all_images_with_their_labels_in_an_order_of_its_own():
    labels = np.arange(10)
    data = input_data.DataSet(labels.reshape(10, 1, 1, 1), labels, dtype=tf.uint8, seed=3)
    batches = [data.next_batch(5) for _ in range(6)]
    for images, their_labels in batches:
        np.testing.assert_array_equal(images[:, 0], their_labels)
    epochs = [[*batches[k][1], *batches[k + 1][1]] for k in (0, 2, 4)]
    assert [sorted(epoch) for epoch in epochs] == [labels.tolist()] * 3
    assert len({tuple(epoch) for epoch in [labels.tolist(), *epochs]}) == 4


def test_a_seed_repeats_the_order():
    def first_epoch(seed):
        return input_data.DataSet(np.zeros([50, 1, 1, 1]), np.arange(50), seed=seed).next_batch(50)[1].tolist()

    assert first_epoch(1) == first_epoch(1) != first_epoch(2)
    orders = []
    for _ in range(2):
        fix_rng_seed(5)
        orders.append(first_epoch(None))
    fix_rng_seed(None)
    assert orders[0] == orders[1]


def test_fake_data_reads_nothing():
    sets = input_data.read_data_sets("nowhere", fake_data=True, one_hot=True)
    images, labels = sets.train.next_batch(2)
    assert (images, labels) == ([[1.0] * 784] * 2, [[1] + [0] * 9] * 2)
    assert sets.test.num_examples == 10000
    assert input_data.DataSet([], [], fake_data=True).next_batch(1)[1] == [0]


def small():
    return input_data.DataSet(np.zeros([3, 2, 2, 1]), np.zeros(3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: small().next_batch(4), ConfigError, r"batch_size=4: expected an integer from 0 to 3"),
        (lambda: small().next_batch(1, fake_data=True), ConfigError, "made with fake_data=True"),
        (lambda: input_data.DataSet(np.zeros([3, 4]), np.zeros(3)), ConfigError, r"\(3, 4\): expected \(N, H, W, 1\)"),
        (lambda: input_data.DataSet(np.zeros([3, 2, 2, 1]), np.zeros(2)), ConfigError, "expected as many"),
        (lambda: input_data.DataSet([], [], dtype=tf.int32), ConfigError, "expected tf.uint8 or tf.float32"),
        (lambda: input_data.read_data_sets("x", one_hot=3), WrongTypeError, "one_hot"),
    ],
)
def test_what_cannot_work_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_files_that_are_missing_or_too_small_are_told(files, tmp_path):
    folder, _ = files
    with pytest.raises(ConfigError, match=r"read_data_sets got validation_size=11: expected an integer from 0 to 10"):
        input_data.read_data_sets(folder, validation_size=11)
    with pytest.raises(InputError, match="has no train-images-idx3-ubyte.gz or .* nothing is downloaded"):
        input_data.read_data_sets(tmp_path / "empty")
