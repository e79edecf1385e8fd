"""``tf.contrib.learn`` of TensorFlow 1, less its estimators: the names of modes, and what makes numbers of words."""

from typing import Any

from tpack.tf1.contrib.learn import preprocessing
from tpack.tf1.removed_names import missing_name

__all__ = ["ModeKeys", "preprocessing"]


class LearnModeKeys:
    """The values of ``mode`` in ``tf.contrib.learn``; those of Estimators are `tpack.estimator.ModeKeys`."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"

    @classmethod
    def validate(cls, key: str) -> None:
        """Raise a ValueError for a name that is none of them."""
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"Invalid mode {key}: expected {cls.TRAIN}, {cls.EVAL} or {cls.INFER}")


ModeKeys = LearnModeKeys


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, __all__)
