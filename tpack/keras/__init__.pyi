"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.keras.model import KerasModel as KerasModel
from tpack.keras.training import fit as fit
