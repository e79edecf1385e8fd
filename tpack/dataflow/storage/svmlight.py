"""Data points from a text file in SVMLight format: a label and the features that are not zero."""

import os
from typing import Any

from tpack.dataflow.sources import IndexedDataFlow
from tpack.errors import InputError
from tpack.utils.lazy import import_optional
from tpack.utils.validation import check_arguments, check_local_path


@check_arguments
class SVMLightData(IndexedDataFlow):
    """Yield lists ``[features, label]`` from a file in SVMLight format.

    Scikit-learn reads it at construction, and it stays in memory in its sparse form. Features are one array of float64,
    zeros included; the label is a float.

    Raises:
        InputError: The file cannot be read.
        DependencyError: The package ``scikit-learn`` is not installed.
    """

    def __init__(self, filename: str | os.PathLike[str], shuffle: bool = True) -> None:
        super().__init__(shuffle)
        filename = check_local_path(self, "filename", filename)
        datasets = import_optional("sklearn.datasets", "examples")
        try:
            self._features, self._labels = datasets.load_svmlight_file(filename)
        except (OSError, ValueError) as error:
            raise InputError(f"the SVMLight file {filename} cannot be read: {error}") from error

    def __len__(self) -> int:
        return len(self._labels)

    def _read(self, index: int) -> list[Any]:
        return [self._features[index].toarray()[0], self._labels[index]]
