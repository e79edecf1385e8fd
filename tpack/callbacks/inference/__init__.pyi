"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.callbacks.inference.inferencers import BinaryClassificationStats as BinaryClassificationStats
from tpack.callbacks.inference.inferencers import ClassificationError as ClassificationError
from tpack.callbacks.inference.inferencers import Inferencer as Inferencer
from tpack.callbacks.inference.inferencers import ScalarStats as ScalarStats
from tpack.callbacks.inference.runners import DataParallelInferenceRunner as DataParallelInferenceRunner
from tpack.callbacks.inference.runners import InferenceRunner as InferenceRunner
from tpack.callbacks.inference.runners import InferenceRunnerBase as InferenceRunnerBase
