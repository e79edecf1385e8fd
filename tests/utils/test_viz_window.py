"""An image in a window, with a stand-in for an OpenCV that has windows."""

import sys
import types

import numpy as np
import pytest

from tpack.errors import ConfigError, DependencyError
from tpack.utils.viz import interactive_imshow

IMAGE = np.zeros((4, 5, 3), np.uint8)


@pytest.fixture
def opencv(monkeypatch):
    """Return an OpenCV whose user clicks with both buttons and presses the key ``pressed``."""
    fake = types.ModuleType("cv2")
    fake.error, fake.EVENT_LBUTTONUP, fake.EVENT_RBUTTONUP, fake.pressed = RuntimeError, 4, 5, "q"
    fake.open, fake.shown, fake.written = set(), [], []

    def imshow(window, image):
        fake.open.add(window)
        fake.shown.append(image.shape)

    def set_mouse_callback(window, callback):
        fake.mouse = callback

    def wait_key(delay):
        for event in (0, fake.EVENT_LBUTTONUP, fake.EVENT_RBUTTONUP):
            fake.mouse(event, 1, 2, 0, None)
        return ord(fake.pressed) | 0x100000

    fake.imshow, fake.setMouseCallback, fake.waitKey = imshow, set_mouse_callback, wait_key
    fake.destroyWindow = fake.open.remove
    fake.imwrite = lambda path, image: fake.written.append(path)
    monkeypatch.setitem(sys.modules, "cv2", fake)
    return fake


def test_clicks_and_keys_call_back_and_the_window_is_closed(opencv):
    calls = []
    opencv.pressed = "a"
    interactive_imshow(
        IMAGE,
        lclick_cb=lambda img, x, y: calls.append(("left", img is IMAGE, x, y)),
        rclick_cb=lambda img, x, y: calls.append(("right", img is IMAGE, x, y)),
        key_cb_a=lambda img: calls.append(("a", img is IMAGE)),
    )
    assert calls == [("left", True, 1, 2), ("right", True, 1, 2), ("a", True)]
    assert (opencv.shown, opencv.open, opencv.written) == ([(4, 5, 3)], set(), [])


def test_keys_close_write_and_end(opencv):
    interactive_imshow(IMAGE)
    assert opencv.written == []
    opencv.pressed = "s"
    interactive_imshow(IMAGE)
    assert opencv.written == ["out.png"]
    opencv.pressed = "x"
    with pytest.raises(SystemExit):
        interactive_imshow(IMAGE)


def test_an_opencv_without_windows_is_named(opencv):
    def imshow(window, image):
        raise opencv.error("The function is not implemented")

    opencv.imshow = imshow
    with pytest.raises(DependencyError, match="this OpenCV cannot open a window: install opencv-python in place"):
        interactive_imshow(IMAGE)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"key_cb_ab": print}, "has no argument 'key_cb_ab': expected key_cb_a for the key 'a'"),
        ({"a": print}, "has no argument 'a'"),
        ({"key_cb_a": 5}, "interactive_imshow got key_cb_a=5: expected a function"),
    ],
)
def test_keywords_that_name_no_key_are_refused(opencv, keywords, message):
    with pytest.raises(ConfigError, match=message):
        interactive_imshow(IMAGE, **keywords)
    assert opencv.shown == []
