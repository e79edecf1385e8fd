"""Prediction on one batch by several devices at the same time."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, DataPointError
from tpack.predict.base import PredictorBase
from tpack.predict.config import PredictConfig
from tpack.predict.fed_outputs import make_predict_function
from tpack.predict.offline import check_config, create_predict_session
from tpack.predict.online import convert_inputs, input_components
from tpack.predict.towers import build_predict_towers
from tpack.tower.devices import resolve_devices


class DataParallelOfflinePredictor(PredictorBase):
    """Split each batch over several devices, and join what they return.

    It is called as any predictor is: the first dimension of inputs is the batch, which need not be a multiple of the
    number of devices, and that of outputs too. Inputs that are scalars go to all devices. (tensorpack's predictor of
    this name wants K data points at once and returns K times the outputs.)

    Args:
        config: the model and its weights.
        towers: how many towers, or the numbers of their GPUs, which become logical CPU devices on a machine without
            GPUs.

    Attributes:
        graph: the graph.
        sess: the session.

    Raises:
        ConfigError: ``config`` is not a `PredictConfig`, the towers cannot be understood, no input has a batch
            dimension or one has a batch of a fixed size, or an output is a scalar.
        DeviceError: A GPU that the machine, having GPUs, does not have.
        TowerError: The model has no tensor of an input or output name. The message lists near names.
        CheckpointError: The weights are missing, damaged or of other shapes.
        DataPointError: In a call, an input does not fit, the inputs' batches differ in size, or an output does not
            have one row for each row of the batch.
    """

    def __init__(self, config: PredictConfig, towers: int | Sequence[int]) -> None:
        devices = resolve_devices(towers)
        self.return_input = check_config(config, self).return_input
        self.graph = config.make_graph()
        with self.graph.as_default():
            handles = build_predict_towers(config, devices, lambda index: _placeholders(config.input_signature))
            self._inputs = [handle.get_tensors(config.input_names) for handle in handles]
            self._outputs = [handle.get_tensors(config.output_names) for handle in handles]
            self._is_split = _check_inputs(self._inputs[0])
            _check_outputs(self._outputs[0])
            self.sess = create_predict_session(config)
        self._components = input_components(self._inputs[0], config.input_names)
        self._callables: dict[int, Callable[..., list[Any]]] = {}

    def _do_call(self, dp: Sequence[Any]) -> list[np.ndarray]:
        arrays = convert_inputs(type(self).__name__, self._components, dp)
        batch = self._batch_size(arrays)
        # Towers without a row are not run; a model need not be able to work on nothing.
        used = max(1, min(batch, len(self._inputs)))
        parts = [
            np.array_split(array, used) if is_split else [array] * used
            for array, is_split in zip(arrays, self._is_split, strict=True)
        ]
        results = self._run(used, [part[tower] for tower in range(used) for part in parts])
        sizes = [len(part) for part in np.array_split(range(batch), used)]
        num_outputs = len(self._outputs[0])
        return [self._join(position, results[position::num_outputs], sizes) for position in range(num_outputs)]

    def _join(self, position: int, values: Sequence[Any], sizes: Sequence[int]) -> np.ndarray:
        for value, size in zip(values, sizes, strict=True):
            if np.ndim(value) == 0 or len(value) != size:
                raise DataPointError(
                    f"{type(self).__name__} cannot join the output {self._outputs[0][position].name} of its towers: "
                    f"for {size} rows of the batch it is of shape {np.shape(value)}, wanted one row for each"
                )
        return np.concatenate(values)

    def _run(self, used: int, feeds: Sequence[np.ndarray]) -> list[Any]:
        if used not in self._callables:
            self._callables[used] = make_predict_function(
                self.sess,
                [tensor for tower in self._inputs[:used] for tensor in tower],
                [tensor for tower in self._outputs[:used] for tensor in tower],
            )
        return self._callables[used](*feeds)

    def _batch_size(self, arrays: Sequence[np.ndarray]) -> int:
        sizes = [len(array) for array, is_split in zip(arrays, self._is_split, strict=True) if is_split]
        if len(set(sizes)) > 1:
            raise DataPointError(f"{type(self).__name__} got inputs of different batch sizes: {sizes}")
        return sizes[0]


def _placeholders(signature: Sequence[Any]) -> list[Any]:
    return [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in signature]


def _check_inputs(tensors: Sequence[Any]) -> list[bool]:
    """Return which inputs have a batch dimension."""
    for tensor in tensors:
        if tensor.shape.rank is None or (tensor.shape.rank > 0 and tensor.shape[0] is not None):
            raise ConfigError(
                f"DataParallelOfflinePredictor cannot split the input {tensor.name} of shape {tensor.shape}: wanted a "
                "known rank and None as the first dimension"
            )
    is_split = [tensor.shape.rank > 0 for tensor in tensors]
    if not any(is_split):
        raise ConfigError("DataParallelOfflinePredictor has nothing to split: all its inputs are scalars")
    return is_split


def _check_outputs(tensors: Sequence[Any]) -> None:
    for tensor in tensors:
        if tensor.shape.rank == 0:
            raise ConfigError(
                f"DataParallelOfflinePredictor cannot join the output {tensor.name}: it is a scalar, and a batch is "
                "split over the towers. Wanted one row for each row of the batch"
            )
