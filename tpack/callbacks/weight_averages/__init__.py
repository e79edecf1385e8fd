"""Averages of the weights of many steps, for evaluation and export."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {"ema": ("EMA",), "swa": ("SWA",)})
