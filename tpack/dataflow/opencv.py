"""Access to OpenCV, which the extra ``vision`` installs, for images of any number of channels."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tpack.errors import DataPointError
from tpack.utils.lazy import import_optional

MAX_CHANNELS = 4


def opencv() -> Any:
    """Return the module ``cv2``; raise DependencyError if it is not installed."""
    return import_optional("cv2", "vision")


def apply_per_channels(function: Callable[[np.ndarray], np.ndarray], image: np.ndarray) -> np.ndarray:
    """Apply a function of OpenCV, independent for each channel, to an image; keep its dimensions and channels.

    OpenCV drops the last dimension of (H, W, 1), and some of its functions take at most four channels.

    Raises:
        DataPointError: OpenCV fails; there may be too little memory.
    """
    if image.ndim == 3 and image.shape[2] > MAX_CHANNELS:
        parts = [image[:, :, k : k + MAX_CHANNELS] for k in range(0, image.shape[2], MAX_CHANNELS)]
        return np.concatenate([apply_per_channels(function, np.ascontiguousarray(part)) for part in parts], axis=2)
    try:
        result = function(image)
    except opencv().error as error:
        reason = " ".join(str(error).split())
        given = f"an image of shape {image.shape} and dtype {image.dtype}"
        raise DataPointError(f"OpenCV failed on {given}: {reason}") from error
    return result if result.ndim == image.ndim else result[:, :, np.newaxis]
