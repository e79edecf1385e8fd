"""Values of tensors passed to a function, logged, or written to files as arrays or images."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import CallbackError
from tpack.tfutils.summary import encode_png
from tpack.utils import logger
from tpack.utils.fs import atomic_write
from tpack.utils.validation import check_arguments, check_number, check_text


@check_arguments
class ProcessTensors(Callback):
    """Fetch tensors with every step and pass their values to a function.

    Wrap it in `PeriodicCallback` or `EnableCallbackIf` to choose steps.

    Args:
        names: names of tensors, in the graph or in the first training tower.
        fn: called with one positional argument for each name.

    Raises:
        WrongTypeError: ``names`` is not a list of text, or ``fn`` not a function.
    """

    def __init__(self, names: Sequence[str], fn: Callable[..., object]) -> None:
        self._names = list(names)
        self._fn = fn
        self._fetches: tf.train.SessionRunArgs | None = None

    def _setup_graph(self) -> None:
        self._fetches = tf.train.SessionRunArgs(tuple(self.get_tensors_maybe_in_tower(self._names)))

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._fetches

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is not None:
            self._fn(*values.results)


@check_arguments
class DumpTensors(ProcessTensors):
    """Write tensors to ``DumpTensor-<global step>.npz`` in the logger's directory after every step.

    The names are the keys: ``dict(numpy.load(path))`` reads the arrays.

    Args:
        names: names of tensors, in the graph or in the first training tower.

    Raises:
        WrongTypeError: ``names`` is not a list of text.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names, lambda *values: setattr(self, "_values", values))
        self._values: tuple[np.ndarray, ...] | None = None
        self._dir = ""

    def _setup_graph(self) -> None:
        super()._setup_graph()
        self._dir = _require_logger_dir(self)

    def _trigger_step(self) -> None:
        # After counting, so that the file carries the number of its own step.
        if self._values is not None:
            arrays: dict[str, Any] = dict(zip(self._names, self._values, strict=True))
            self._values = None
            with atomic_write(os.path.join(self._dir, f"DumpTensor-{self.global_step}.npz"), "wb") as file:
                np.savez(file, **arrays)


DumpTensor = DumpTensors


@check_arguments
class TensorPrinter(ProcessTensors):
    """Log tensors after every step; numpy shortens large ones.

    Args:
        names: names of tensors, in the graph or in the first training tower.

    Raises:
        WrongTypeError: ``names`` is not a list of text.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names, self._log)

    def _log(self, *values: np.ndarray) -> None:
        for name, value in zip(self._names, values, strict=True):
            logger.info(f"{name}: {value}")


@check_arguments
class DumpTensorAsImage(Callback):
    """Evaluate a tensor when triggered and write it as images to the logger's directory.

    It is evaluated in a separate run, for tensors made of variables, such as filters: a tensor that depends on data
    takes a batch from training, and fails if data are fed. Files are called ``<prefix>-ep<epoch>.png``, or
    ``<prefix>-ep<epoch>-<number>.png`` for several images. Three channels are red, green and blue, unlike in
    tensorpack.

    Args:
        tensor_name: name of a tensor, in the graph or in the first training tower.
        prefix: the beginning of file names; the tensor's name unless given.
        map_func: makes an image, a batch or a list of images of the tensor's value.
        scale: factor of the values, which are then clipped to 0 to 255.

    Shapes:
        An image is [height, width] or [height, width, channels] with 1, 3 or 4 channels; a batch is [batch, height,
        width, channels].
    """

    def __init__(
        self,
        tensor_name: str,
        prefix: str | None = None,
        map_func: Callable[[np.ndarray], np.ndarray | Sequence[np.ndarray]] | None = None,
        scale: float = 255,
    ) -> None:
        self._name = check_text(self, "tensor_name", tensor_name)
        self._prefix = prefix or tensor_name.replace("/", "-").replace(":", "-")
        self._map_func = map_func
        self._scale = check_number(self, "scale", scale)
        self._dir = ""
        self._tensor: tf.Tensor | None = None

    def _setup_graph(self) -> None:
        self._dir = _require_logger_dir(self)
        self._tensor = self.get_tensors_maybe_in_tower([self._name])[0]

    def _trigger(self) -> None:
        value = self.trainer.sess.run(self._tensor)
        if self._map_func is not None:
            value = self._map_func(value)
        if isinstance(value, (list, tuple)) or np.ndim(value) == 4:
            for index, image in enumerate(value):
                self._write(np.asarray(image), f"-{index}")
        else:
            self._write(np.asarray(value), "")

    def _write(self, image: np.ndarray, suffix: str) -> None:
        pixels = image[:, :, np.newaxis] if image.ndim == 2 else image
        if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4):
            raise CallbackError(
                f"{self} got an image of shape {image.shape}: expected (H, W), (H, W, 1), (H, W, 3) or (H, W, 4); use "
                "map_func"
            )
        scaled = np.clip(np.rint(pixels.astype(np.float64) * self._scale), 0, 255).astype(np.uint8)
        path = os.path.join(self._dir, f"{self._prefix}-ep{self.epoch_num:03d}{suffix}.png")
        with atomic_write(path, "wb") as file:
            file.write(encode_png(scaled))

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._name})"


class DumpParamAsImage(DumpTensorAsImage):
    """`DumpTensorAsImage` under the name that some scripts use."""


def _require_logger_dir(callback: Callback) -> str:
    directory = logger.get_logger_dir()
    if directory is None:
        raise CallbackError(f"{callback} got no logger directory: expected one; use logger.set_logger_dir")
    return directory
