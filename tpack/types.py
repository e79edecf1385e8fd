"""The types that several packages speak of and none of them owns: aliases, and protocols of what is made further up.

Callbacks work on a trainer and towers on a strategy, and both are defined in packages above them. A protocol says here
what may be asked of such an object, so that code below can name its type without importing it.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

GradsAndVars: TypeAlias = Sequence[tuple[Any, Any]]
"""Pairs of a gradient, dense, ``IndexedSlices`` or None, and its variable, as a v1 optimizer gives and takes them."""
