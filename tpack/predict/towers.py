"""Prediction on several devices: a predictor for each with the same weights, or one for batches over all of them."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import tensorflow.compat.v1 as tf
from numpy.typing import ArrayLike

from tpack.errors import ConfigError, DataPointError
from tpack.graph_builder.compiled import TowerCompiler, build_watched
from tpack.input_source.tensors import PlaceholderInput
from tpack.predict.base import PredictorBase, make_predict_function
from tpack.predict.config import PredictConfig
from tpack.predict.offline import check_config, create_predict_session
from tpack.predict.online import OnlinePredictor, check_that_inputs_suffice, convert_inputs, input_components
from tpack.tower.context import PredictTowerContext
from tpack.tower.devices import resolve_devices
from tpack.tower.names import tower_name
from tpack.tower.tower_func import TowerHandle
from tpack.utils import logger
from tpack.utils.validation import check_arguments


@check_arguments
class MultiTowerOfflinePredictor(PredictorBase):
    """Predictors of one model on several devices, in one session with one set of weights.

    The predictors can run in parallel threads, as in `MultiThreadAsyncPredictor`. Called itself, it predicts on the
    first device. The weights are on the first device, and the others fetch them in each call.

    Args:
        config: the model and its weights.
        towers: the number of towers, or the numbers of their GPUs, which become logical CPU devices on a machine
            without GPUs.

    Attributes:
        graph: the graph.
        sess: the session.

    Raises:
        ConfigError: ``config`` is not a `PredictConfig`, or ``towers`` is invalid.
        DeviceError: The machine has GPUs, but not one of these.
        TowerError: The model has no tensor of an input or output name. The message lists near names.
        CheckpointError: The weights are missing, damaged or of other shapes.
    """

    def __init__(self, config: PredictConfig, towers: int | Sequence[int]) -> None:
        devices = resolve_devices(towers)
        self.return_input = check_config(config, self).return_input
        self.graph = config.make_graph()
        with self.graph.as_default():
            source = PlaceholderInput()
            source.setup(config.input_signature)
            compiler = config.make_compiler()
            handles = build_predict_towers(config, devices, lambda index: source.get_input_tensors(), compiler)
            tensors = [
                (each.get_tensors(config.input_names), each.get_tensors(config.output_names)) for each in handles
            ]
            self._predictors = [OnlinePredictor(*each, config.return_input) for each in tensors]
            self.sess = create_predict_session(config, compiler)
        for predictor in self._predictors:
            predictor.sess = self.sess

    def get_predictor(self, n: int) -> OnlinePredictor:
        """Return the predictor of tower ``n``, modulo their number."""
        if n >= len(self._predictors):
            logger.warning(f"Predictor {n} was requested of {len(self._predictors)}: some are shared.")
        return self._predictors[n % len(self._predictors)]

    def get_predictors(self) -> list[OnlinePredictor]:
        """Return the predictors of all towers."""
        return list(self._predictors)

    def _do_call(self, dp: Sequence[ArrayLike]) -> list[np.ndarray]:
        return self._predictors[0]._do_call(dp)


@check_arguments
class DataParallelOfflinePredictor(PredictorBase):
    """Predictor that splits each batch over several devices, and joins the outputs.

    The first dimension of inputs and outputs is the batch, which need not be a multiple of the number of devices.
    Scalar inputs go to all devices. (tensorpack's predictor of this name takes K data points at once and returns K
    times the outputs.)

    Args:
        config: the model and its weights.
        towers: the number of towers, or the numbers of their GPUs, which become logical CPU devices on a machine
            without GPUs.

    Attributes:
        graph: the graph.
        sess: the session.

    Raises:
        ConfigError: ``config`` is not a `PredictConfig`, ``towers`` is invalid, no input has a batch dimension or one
            has a fixed batch size, or an output is a scalar.
        DeviceError: The machine has GPUs, but not one of these.
        TowerError: The model has no tensor of an input or output name. The message lists near names.
        CheckpointError: The weights are missing, damaged or of other shapes.
        DataPointError: In a call, an input does not fit, the inputs' batch sizes differ, or an output does not have one
            row for each row of the batch.
    """

    def __init__(self, config: PredictConfig, towers: int | Sequence[int]) -> None:
        devices = resolve_devices(towers)
        self.return_input = check_config(config, self).return_input
        self.graph = config.make_graph()
        with self.graph.as_default():
            compiler = config.make_compiler()
            handles = build_predict_towers(
                config, devices, lambda index: _placeholders(config.input_signature), compiler
            )
            self._inputs = [handle.get_tensors(config.input_names) for handle in handles]
            self._outputs = [handle.get_tensors(config.output_names) for handle in handles]
            self._is_split = _check_inputs(self._inputs[0])
            _check_outputs(self._outputs[0])
            check_that_inputs_suffice(self._inputs[0], self._outputs[0])
            self.sess = create_predict_session(config, compiler)
        self._components = input_components(self._inputs[0], config.input_names)
        self._callables: dict[int, Callable[..., list[np.ndarray]]] = {}

    def _do_call(self, dp: Sequence[ArrayLike]) -> list[np.ndarray]:
        arrays = convert_inputs(type(self).__name__, self._components, dp)
        batch = self._batch_size(arrays)
        # Towers without a row are not run, since a model may not support empty batches.
        used = max(1, min(batch, len(self._inputs)))
        parts = [
            np.array_split(array, used) if is_split else [array] * used
            for array, is_split in zip(arrays, self._is_split, strict=True)
        ]
        results = self._run(used, [part[tower] for tower in range(used) for part in parts])
        sizes = [len(part) for part in np.array_split(range(batch), used)]
        num_outputs = len(self._outputs[0])
        return [self._join(position, results[position::num_outputs], sizes) for position in range(num_outputs)]

    def _join(self, position: int, values: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
        for value, size in zip(values, sizes, strict=True):
            if np.ndim(value) == 0 or len(value) != size:
                raise DataPointError(
                    f"{type(self).__name__} cannot join the output {self._outputs[0][position].name} of its towers: "
                    f"for {size} rows of the batch it is of shape {np.shape(value)}, expected one row for each"
                )
        return np.concatenate(values)

    def _run(self, used: int, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
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


def build_predict_towers(
    config: PredictConfig,
    devices: Sequence[str],
    get_inputs: Callable[[int], Sequence[tf.Tensor]],
    compiler: TowerCompiler | None = None,
) -> list[TowerHandle]:
    """Build the model of a config once on each device, in the current graph; return the handles of the towers.

    All towers, ``tower0`` and so on, use one set of variables, which lies on the first device. A compiler marks the
    operations of the config's outputs for XLA.

    Raises:
        TowerMismatchError: A later tower asks for a variable that the first did not create.
    """
    tower_func = config.tower_func.without_towers()
    for index, device in enumerate(devices):
        # A tower for prediction is one by itself: nothing is summed over towers.
        tower = PredictTowerContext(tower_name(index), device=device, reuse=index > 0)
        handle = build_watched(tower_func, tower, partial(get_inputs, index), compiler)
        if compiler is not None:
            compiler.mark(tower, handle.get_tensors(config.output_names))
    return list(tower_func.towers)


def _placeholders(signature: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
    return [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in signature]


def _check_inputs(tensors: Sequence[tf.Tensor]) -> list[bool]:
    """Return which inputs have a batch dimension."""
    for tensor in tensors:
        rank = tensor.shape.rank
        if rank is None or (rank > 0 and tf.compat.dimension_value(tensor.shape[0]) is not None):
            raise ConfigError(
                f"DataParallelOfflinePredictor cannot split the input {tensor.name} of shape {tensor.shape}: expected "
                "a known rank and None as the first dimension"
            )
    is_split = [tensor.shape.rank > 0 for tensor in tensors]
    if not any(is_split):
        raise ConfigError("DataParallelOfflinePredictor has nothing to split: all its inputs are scalars")
    return is_split


def _check_outputs(tensors: Sequence[tf.Tensor]) -> None:
    for tensor in tensors:
        if tensor.shape.rank == 0:
            raise ConfigError(
                f"DataParallelOfflinePredictor cannot join the output {tensor.name}: it is a scalar, and a batch is "
                "split over the towers. Wanted one row for each row of the batch"
            )
