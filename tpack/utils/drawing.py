"""Draw onto images: boxes and text with OpenCV, and intensities as colours with matplotlib."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.errors import ConfigError
from tpack.utils.optional import import_optional

_BOX_COLOUR = (180, 119, 31)


def draw_text(
    img: np.ndarray, pos: tuple[int, int], text: str, color: Sequence[int], font_scale: float = 0.4
) -> np.ndarray:
    """Return an image with text on it, white on a filled rectangle.

    Args:
        img: a BGR image in [0, 255]; it is not changed.
        pos: (x, y) of the upper left corner. Text that would leave the image is moved inside.
        text: one line.
        color: of the rectangle, BGR.
        font_scale: the size of the letters.

    Raises:
        DependencyError: OpenCV is not installed.
    """
    cv2 = import_optional("cv2", "vision")
    image = _as_canvas(img)
    font = cv2.FONT_HERSHEY_SIMPLEX
    (width, height), below = cv2.getTextSize(text, font, font_scale, 1)
    x = max(min(int(pos[0]), image.shape[1] - width), 0)
    y = max(min(int(pos[1]), image.shape[0] - height - below), 0)
    cv2.rectangle(image, (x, y), (x + width, y + height + below - 1), _colour(color), cv2.FILLED)
    cv2.putText(image, text, (x, y + height), font, font_scale, (255, 255, 255), lineType=cv2.LINE_AA)
    return image


def draw_boxes(
    im: np.ndarray, boxes: Any, labels: Sequence[str] | None = None, color: Sequence[int] | None = None
) -> np.ndarray:
    """Return an image with boxes on it, small ones above large ones.

    Args:
        im: a BGR image in [0, 255], or a grey one of shape (H, W); it is not changed.
        boxes: of shape (N, 4), each row (x1, y1, x2, y2).
        labels: a text for each box.
        color: of all boxes, BGR.

    Raises:
        ConfigError: The boxes have another shape, a box is empty or outside the image, or the labels are not as many.
        DependencyError: OpenCV is not installed.
    """
    cv2 = import_optional("cv2", "vision")
    image = _as_canvas(im)
    corners = _check_boxes(boxes, image.shape, labels)
    colour = _colour(_BOX_COLOUR if color is None else color)
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    for index in np.argsort(-areas, kind="stable"):
        x1, y1, x2, y2 = (int(value) for value in corners[index])
        if labels is not None:
            image = draw_text(image, (x1, y1), labels[index], colour)
        cv2.rectangle(image, (x1, y1), (x2, y2), colour, thickness=1)
    return image


def intensity_to_rgb(intensity: Any, cmap: str = "cubehelix", normalize: bool = False) -> np.ndarray:
    """Return an image of intensities by one of matplotlib's colour maps.

    Args:
        intensity: of shape (H, W), in [0, 1]; values outside get the colours of the ends.
        cmap: the name of the map.
        normalize: stretch the least and greatest intensity to 0 and 1 first; equal ones become 0.

    Returns:
        Red, green and blue in [0, 255]: float32 of shape (H, W, 3).

    Raises:
        ConfigError: The shape is another one, or there is no such map.
        DependencyError: matplotlib is not installed.
    """
    maps = import_optional("matplotlib", "plot").colormaps
    values = np.asarray(intensity, np.float32)
    if values.ndim != 2:
        raise ConfigError(f"wanted intensities of shape (H, W), got {values.shape}")
    if cmap not in maps:
        raise ConfigError(f"matplotlib has no colour map {cmap!r}")
    if normalize:
        least, span = values.min(initial=np.inf), np.ptp(values) if values.size else 0.0
        values = (values - least) / span if span > 0 else np.zeros_like(values)
    return np.asarray(maps[cmap](values)[..., :3] * 255.0, np.float32)


def _as_canvas(image: np.ndarray) -> np.ndarray:
    """Return a copy that OpenCV can draw on in colours."""
    copy = np.array(image, np.uint8, order="C")
    if copy.ndim == 2:
        copy = copy[:, :, np.newaxis]
    if copy.ndim != 3 or copy.shape[2] not in (1, 3):
        raise ConfigError(f"wanted an image of shape (H, W), (H, W, 1) or (H, W, 3), got {np.shape(image)}")
    return np.repeat(copy, 3, axis=2) if copy.shape[2] == 1 else copy


def _check_boxes(boxes: Any, shape: tuple[int, ...], labels: Sequence[str] | None) -> np.ndarray:
    corners = np.asarray(boxes, np.float64)
    if corners.ndim != 2 or corners.shape[1] != 4:
        raise ConfigError(f"wanted boxes of shape (N, 4), got {corners.shape}")
    if labels is not None and len(labels) != len(corners):
        raise ConfigError(f"got {len(labels)} labels for {len(corners)} boxes: wanted as many")
    for box in corners:
        x1, y1, x2, y2 = box
        if not (0 <= x1 < x2 <= shape[1] and 0 <= y1 < y2 <= shape[0]):
            raise ConfigError(
                f"the box {box.tolist()} is empty or outside of the image, which is {shape[1]} wide and {shape[0]} high"
            )
    return corners


def _colour(color: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(value) for value in color)
