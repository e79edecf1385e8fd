"""Optimizers that graph-mode TensorFlow does not have: `AdamW`, `LAMB`, `LARS` and `Lion`.

Each is a ``tf.compat.v1.train.Optimizer``: a trainer, a strategy, an Estimator and what wraps optimizers take it as one
of TensorFlow's.
"""

from tpack.optimizers.adamw import AdamW
from tpack.optimizers.hyper import BIASES_AND_NORMS
from tpack.optimizers.lamb import LAMB
from tpack.optimizers.lars import LARS
from tpack.optimizers.lion import Lion
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = ["BIASES_AND_NORMS", "LAMB", "LARS", "AdamW", "Lion"]
