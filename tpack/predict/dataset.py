"""Predict all data points of a DataFlow, one after the other: the contract, and the predictor in this process."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.errors import ConfigError
from tpack.predict.config import PredictConfig
from tpack.predict.offline import OfflinePredictor, check_config
from tpack.utils.progress import get_tqdm


class DatasetPredictorBase(ABC):
    """Base of predictors of a whole DataFlow; subclasses have `get_result`.

    Args:
        config: the model and its weights.
        dataset: the data points, with one component for each of the config's input names.

    Raises:
        ConfigError: ``config`` is not a `PredictConfig`, or ``dataset`` not a `DataFlow`.
    """

    def __init__(self, config: PredictConfig, dataset: DataFlow) -> None:
        self.config = check_config(config, self)
        if not isinstance(dataset, DataFlow):
            raise ConfigError(f"{type(self).__name__} wants a DataFlow, got {dataset!r}")
        self.dataset = dataset

    @abstractmethod
    def get_result(self) -> Iterator[Any]:
        """Yield what a predictor returns for each data point."""

    def get_all_result(self) -> list[Any]:
        """Return what a predictor returns for each data point."""
        return list(self.get_result())

    def _progress(self, results: Iterator[Any]) -> Iterator[Any]:
        """Yield the results, and show how many there are."""
        try:
            total = len(self.dataset)
        except NotImplementedError:
            total = None
        with get_tqdm(results, total=total, desc=type(self).__name__) as bar:
            yield from bar


class SimpleDatasetPredictor(DatasetPredictorBase):
    """Predict the data points in this process.

    Args:
        config: the model and its weights.
        dataset: the data points.

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
        """Yield what the predictor returns for each data point, with a progress bar.

        Raises:
            DataPointError: A data point does not fit the inputs.
        """
        self.dataset.reset_state()
        yield from self._progress(self.predictor(*dp) for dp in self.dataset)
