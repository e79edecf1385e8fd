"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.callbacks.weight_averages.ema import EMA as EMA
from tpack.callbacks.weight_averages.swa import SWA as SWA
