"""Images from files."""

import pickle

import cv2
import numpy as np
import pytest

from tests.helpers.images import picture
from tpack.dataflow.images import ImageFromFile, read_image
from tpack.errors import ConfigError, InputError
from tpack.utils import serialize


@pytest.fixture
def files(tmp_path, rng):
    """Seven PNGs of 4 x 5 pixels, in a directory with a name that is no ASCII."""
    folder = tmp_path / "фото"
    folder.mkdir()
    paths = [folder / f"{number}.png" for number in range(7)]
    for path in paths:
        path.write_bytes(cv2.imencode(".png", picture(rng, (4, 5, 3)))[1].tobytes())
    return paths


def content(path, flag=cv2.IMREAD_COLOR):
    return cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), flag)


def ready(*args, **options):
    ds = ImageFromFile(*args, **options)
    ds.reset_state()
    return ds


def test_images_come_in_order_with_three_channels(files):
    ds = ready(files)
    assert len(ds) == 7
    for (image,), path in zip(ds, files, strict=True):
        np.testing.assert_array_equal(image, content(path))


def test_grey_images_have_one_channel(files):
    ((image,), *_) = ready(files, channel=1)
    np.testing.assert_array_equal(image, content(files[0], cv2.IMREAD_GRAYSCALE)[:, :, np.newaxis])


@pytest.mark.parametrize(("resize", "shape"), [(6, (6, 6, 3)), ((8, 9), (8, 9, 3))])
def test_images_are_resized(files, resize, shape):
    ((image,), *_) = ready(files, resize=resize)
    np.testing.assert_array_equal(image, cv2.resize(content(files[0]), shape[1::-1]))


def test_resized_grey_images_keep_their_channel(files):
    assert next(iter(ready(files, channel=1, resize=6)))[0].shape == (6, 6, 1)


def test_shuffled_passes_differ_and_go_on_from_a_state(files):
    ds = ready(files, shuffle=True)
    passes = [[image.tobytes() for (image,) in ds] for _ in range(2)]
    assert passes[0] != passes[1]
    assert sorted(passes[0]) == sorted(passes[1])
    points = iter(ds)
    for _ in range(3):
        next(points)
    state = serialize.loads(serialize.dumps(ds.state_dict()))
    other = pickle.loads(pickle.dumps(ready(files, shuffle=True)))
    other.reset_state()
    other.load_state_dict(state)
    assert [image.tobytes() for (image,) in other] == [image.tobytes() for (image,) in points]
    assert [image.tobytes() for (image,) in other] == [image.tobytes() for (image,) in ds]


@pytest.mark.parametrize("damage", [b"", b"no image", None])
def test_file_that_is_no_image_is_named(files, damage):
    files[2].write_bytes(files[2].read_bytes()[:30] if damage is None else damage)
    with pytest.raises(InputError, match=r"2\.png: OpenCV finds no image in its \d+ bytes"):
        list(ready(files))


def test_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone\.jpg: the image cannot be read: .*No such file"):
        read_image(str(tmp_path / "gone.jpg"))


@pytest.mark.parametrize("given", [[], "one.png"])
def test_what_are_no_files_is_refused(given):
    with pytest.raises(ConfigError, match="expected a list of"):
        ImageFromFile(given)


def test_other_numbers_of_channels_are_refused():
    with pytest.raises(ConfigError, match="ImageFromFile got channel=4: expected one of 1, 3"):
        ImageFromFile(["a"], channel=4)
