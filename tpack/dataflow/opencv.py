"""The one door to OpenCV, which the extra ``vision`` installs, and what its functions do to the channels of an image.

OpenCV drops the last dimension of an image of shape (H, W, 1), and some of its functions take four channels at most.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tpack.errors import DataPointError
from tpack.utils.optional import import_optional

MAX_CHANNELS = 4


def opencv() -> Any:
    """Return the module ``cv2``.

    Raises:
        DependencyError: It is not installed.
    """
    return import_optional("cv2", "vision")


def apply_per_channels(function: Callable[[np.ndarray], np.ndarray], image: np.ndarray) -> np.ndarray:
    """Return what a function of OpenCV makes of an image, with as many dimensions and channels as the image has.

    Args:
        function: takes and returns an image; what it does to one channel does not depend on the others.
        image: of shape (H, W) or (H, W, C).

    Raises:
        DataPointError: OpenCV cannot; there may be too little memory.
    """
    if image.ndim == 3 and image.shape[2] > MAX_CHANNELS:
        parts = [image[:, :, k : k + MAX_CHANNELS] for k in range(0, image.shape[2], MAX_CHANNELS)]
        return np.concatenate([apply_per_channels(function, np.ascontiguousarray(part)) for part in parts], axis=2)
    try:
        result = function(image)
    except opencv().error as error:
        reason = " ".join(str(error).split())
        raise DataPointError(
            f"OpenCV cannot do this to an image of shape {image.shape} and dtype {image.dtype}: {reason}"
        ) from error
    return result if result.ndim == image.ndim else result[:, :, np.newaxis]
