import os

import pytest
import tensorflow.compat.v1 as tf

from tpack.cli.runs.html_report import latest_images
from tpack.errors import InputError
from tpack.tfutils.summary import create_image_summary


def write(directory, images):
    """Write (name, step, pixel) as images of one pixel."""
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(str(directory))
        for name, step, pixel in images:
            writer.add_summary(
                create_image_summary(name, tf.make_ndarray(tf.make_tensor_proto([[[[pixel] * 3]]]))), step
            )
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="cost", simple_value=1.0)]), 300)
        writer.close()


def test_the_last_image_of_each_name_is_found_as_tensorflow_writes_it(tmp_path):
    write(tmp_path, [("b", 1, 10.0), ("a", 200, 20.0), ("b", 300, 30.0)])
    found = latest_images(str(tmp_path), 5)
    assert [(name.split("/")[0], step) for name, (step, _) in found.items()] == [("a", 200), ("b", 300)]
    with tf.Graph().as_default(), tf.Session() as session:
        pixels = [session.run(tf.image.decode_png(image)).ravel().tolist() for _, image in found.values()]
    assert pixels == [[20] * 3, [30] * 3]
    assert len(latest_images(str(tmp_path), 1)) == 1


def test_a_record_that_is_being_written_ends_a_file(tmp_path):
    write(tmp_path, [("a", 1, 10.0), ("b", 2, 20.0)])
    (path,) = tmp_path.glob("events.*")
    whole = path.read_bytes()
    path.write_bytes(whole[:-60])
    assert [name.split("/")[0] for name in latest_images(str(tmp_path), 5)] == ["a"]
    path.write_bytes(b"")
    assert latest_images(str(tmp_path), 5) == {}


def test_files_of_events_that_are_none_or_lie_about_a_length_have_no_images(tmp_path):
    (tmp_path / "events.out.tfevents.1").write_bytes(b"\xff" * 40)
    assert latest_images(str(tmp_path), 3) == {}
    os.mkfifo(tmp_path / "events.out.tfevents.2")
    with pytest.raises(InputError, match="tfevents.2 is a pipe"):
        latest_images(str(tmp_path), 3)
