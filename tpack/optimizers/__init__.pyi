"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.optimizers.adamw import AdamW as AdamW
from tpack.optimizers.hyper import BIASES_AND_NORMS as BIASES_AND_NORMS
from tpack.optimizers.lamb import LAMB as LAMB
from tpack.optimizers.lars import LARS as LARS
from tpack.optimizers.lion import Lion as Lion
