"""Images read from files."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.resize import Resize
from tpack.dataflow.indexed import IndexedDataFlow
from tpack.dataflow.opencv import opencv
from tpack.errors import ConfigError, InputError


class ImageFromFile(IndexedDataFlow):
    """Yield ``[image]`` for each of a list of files.

    An image is uint8 of shape (H, W, 3), with the channels blue, green and red, or (H, W, 1).
    """

    def __init__(
        self,
        files: Sequence[str | os.PathLike[str]],
        channel: int = 3,
        resize: int | Sequence[int] | None = None,
        shuffle: bool = False,
    ) -> None:
        """Make the flow.

        Args:
            files: their paths.
            channel: 3 for colour, 1 for grey.
            resize: height and width that each image is resized to, or one number for both; None leaves it as it is.
            shuffle: whether each pass has a new order.

        Raises:
            ConfigError: There is no file, or another number of channels.
        """
        if isinstance(files, (str, os.PathLike)) or len(files) == 0:
            raise ConfigError(f"ImageFromFile got files={files!r}: wanted a list of at least one path")
        if channel not in (1, 3):
            raise ConfigError(f"ImageFromFile got channel={channel!r}: wanted 1 or 3")
        super().__init__(bool(shuffle))
        self.files = [os.fspath(file) for file in files]
        self.channel = int(channel)
        self.resize = None if resize is None else Resize(resize)

    def __len__(self) -> int:
        return len(self.files)

    def _read(self, index: int) -> list[Any]:
        image = read_image(self.files[index], self.channel)
        return [image if self.resize is None else self.resize.augment(image)]


def read_image(path: str, channel: int = 3) -> np.ndarray:
    """Return the image in a file.

    Args:
        path: the file, in any format that OpenCV reads.
        channel: 3 for the channels blue, green and red; 1 for one, with the shape (H, W, 1).

    Raises:
        InputError: The file is missing, or holds no image that can be read.
    """
    cv2 = opencv()
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise InputError(f"{path}: the image cannot be read: {error}") from error
    image = None
    if content.size:
        image = cv2.imdecode(content, cv2.IMREAD_GRAYSCALE if channel == 1 else cv2.IMREAD_COLOR)
    if image is None:
        raise InputError(f"{path}: its {content.size} bytes are no image that OpenCV can read")
    return image[:, :, np.newaxis] if channel == 1 else image
