"""Prediction of all data points of a DataFlow, in this process or in several."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.errors import DeviceError
from tpack.predict.config import PredictConfig
from tpack.predict.offline import OfflinePredictor, check_config
from tpack.tower.devices import list_gpus
from tpack.utils.logger import log_once
from tpack.utils.process_map import map_in_processes, pickled
from tpack.utils.progress import get_tqdm
from tpack.utils.validation import check_arguments, check_count

_VISIBLE = "CUDA_VISIBLE_DEVICES"


@check_arguments
class DatasetPredictorBase(ABC):
    """Base of predictors of a whole DataFlow; subclasses define `get_result`.

    Args:
        config: the model and its weights.
        dataset: the data points, with one component for each of the config's input names.
    """

    def __init__(self, config: PredictConfig, dataset: DataFlow) -> None:
        self.config = check_config(config, self)
        self.dataset = dataset

    @abstractmethod
    def get_result(self) -> Iterator[Any]:
        """Yield a predictor's result for each data point."""

    def get_all_result(self) -> list[Any]:
        """Return a predictor's result for each data point."""
        return list(self.get_result())

    def _progress(self, results: Iterator[Any]) -> Iterator[Any]:
        """Yield the results with a progress bar."""
        try:
            total = len(self.dataset)
        except NotImplementedError:
            total = None
        with get_tqdm(results, total=total, desc=type(self).__name__) as bar:
            yield from bar


@check_arguments
class SimpleDatasetPredictor(DatasetPredictorBase):
    """Predictor of the data points in this process.

    Attributes:
        predictor: the `OfflinePredictor`.

    Raises:
        ConfigError: As for `DatasetPredictorBase`.
        TowerError: The model has no tensor of an input or output name. The message lists near names.
        CheckpointError: The weights are missing, damaged or of other shapes.

    Example:
        for outputs in SimpleDatasetPredictor(config, dataset).get_result():
            ...
    """

    def __init__(self, config: PredictConfig, dataset: DataFlow) -> None:
        super().__init__(config, dataset)
        self.predictor = OfflinePredictor(config)

    def get_result(self) -> Iterator[Any]:
        """Yield each data point's result, with a progress bar; a `DataPointError` if it does not fit."""
        self.dataset.reset_state()
        yield from self._progress(self.predictor(*dp) for dp in self.dataset)


@check_arguments
class MultiProcessDatasetPredictor(DatasetPredictorBase):
    """Predictor of the data points in parallel processes.

    The DataFlow is iterated in this process. The processes start with the first result, which takes as long as starting
    TensorFlow and building the model, and end with the last one or when iteration stops. They are new interpreters,
    which do not run the script again. (tensorpack forks, which TensorFlow does not survive after use:
    tensorflow/tensorflow#2448.)

    Args:
        config: the model and its weights, picklable.
        dataset: the data points.
        nr_proc: the number of processes.
        use_gpu: give each process a GPU of its own, out of those in ``CUDA_VISIBLE_DEVICES``; on a machine without GPUs
            they use the CPU. Otherwise they see no GPU.
        ordered: yield results in the order of the data points, or as they arrive.

    Raises:
        ConfigError: As for `DatasetPredictorBase`; ``nr_proc`` is below one; or the config cannot be pickled.
        DeviceError: There are GPUs, but fewer than processes.
    """

    def __init__(
        self, config: PredictConfig, dataset: DataFlow, nr_proc: int, use_gpu: bool = True, ordered: bool = True
    ) -> None:
        super().__init__(config, dataset)
        check_count(self, "nr_proc", nr_proc)
        self._environments = _gpu_environments(nr_proc) if use_gpu else [{_VISIBLE: "-1"}] * nr_proc
        self._make_predictor = pickled(partial(_make_predictor, config), "the PredictConfig")
        self._ordered = ordered

    def get_result(self) -> Iterator[Any]:
        """Yield the predictor's result for each data point, with a progress bar.

        Raises:
            WorkerError: A process failed or died; the message names it, the data point and the reason.
        """
        self.dataset.reset_state()
        results = map_in_processes(
            self._make_predictor,
            self.dataset,
            name=type(self).__name__,
            environments=self._environments,
            ordered=self._ordered,
        )
        with closing(results):
            for dp, outputs in self._progress(results):
                yield (dp, outputs) if self.config.return_input else outputs


def _gpu_environments(nr_proc: int) -> Sequence[Mapping[str, str]]:
    """Return the environment of each process, with one visible GPU."""
    num_gpus = len(list_gpus())
    if num_gpus == 0:
        log_once("This machine has no GPU: the processes of MultiProcessDatasetPredictor work on the CPU.")
        return [{}] * nr_proc
    if nr_proc > num_gpus:
        raise DeviceError(
            f"MultiProcessDatasetPredictor got nr_proc={nr_proc}: expected at most {num_gpus}, one for each GPU; use "
            "fewer, or use_gpu=False"
        )
    names = os.environ.get(_VISIBLE, "").split(",") if os.environ.get(_VISIBLE) else map(str, range(num_gpus))
    return [{_VISIBLE: name.strip()} for name, _ in zip(names, range(nr_proc), strict=False)]


def _make_predictor(config: PredictConfig) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function of data points; called in a predicting process."""
    predictor = OfflinePredictor(config)
    # The sending process has the data points.
    predictor.return_input = False
    return lambda dp: predictor(*dp)
