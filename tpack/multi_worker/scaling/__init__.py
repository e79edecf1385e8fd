"""Simulation of a training step of many workers, on the schedule of the exchange itself."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {})
