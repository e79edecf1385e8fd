"""The generators of all augmentors in one, as plain values, so that an interrupted run goes on with the same numbers.

An augmentor that stands in two places has one generator, and counts once.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor
from tpack.dataflow.iterator_state import rng_from_state, rng_state
from tpack.errors import InputError


def generator_states(augmentor: ImageAugmentor) -> list[Any]:
    """Return the states of the generators of an augmentor and all that it is made of."""
    return [rng_state(part.rng) for part in _all_parts(augmentor)]


def read_generator_states(augmentor: ImageAugmentor, states: object) -> list[np.random.RandomState]:
    """Return generators in states that ``generator_states`` returned, for ``set_generators``.

    Args:
        augmentor: one built as that which gave the states.
        states: the states.

    Raises:
        InputError: They are not such states, or of a different number of augmentors.
    """
    count = sum(1 for _ in _all_parts(augmentor))
    if not isinstance(states, (list, tuple)) or len(states) != count:
        found = f"{len(states)} states" if isinstance(states, (list, tuple)) else f"a {type(states).__name__}"
        raise InputError(
            f"got {found} of augmentors: expected {count}; build the augmentors as in the run that saved it"
        )
    return [rng_from_state(state) for state in states]


def set_generators(augmentor: ImageAugmentor, generators: list[np.random.RandomState]) -> None:
    """Give an augmentor, and all that it is made of, the generators that ``read_generator_states`` returned."""
    for part, generator in zip(_all_parts(augmentor), generators, strict=True):
        part.rng = generator


def seed_generators(augmentor: ImageAugmentor, seed: int) -> None:
    """Give an augmentor, and all that it is made of, one generator that follows from a seed.

    What it draws next depends on the seed alone: a process that augments an image by the seed that came with it does
    the same whatever it did before. A function in a worker, which has no position, becomes repeatable this way.

    Args:
        augmentor: the augmentor.
        seed: an integer from 0 to ``2**32 - 1``.
    """
    generator = np.random.RandomState(seed)
    for part in _all_parts(augmentor):
        part.rng = generator


def _all_parts(augmentor: ImageAugmentor) -> Iterator[ImageAugmentor]:
    """Yield an augmentor and all that it is made of, each once, outer ones first."""
    seen: set[int] = set()
    waiting = [augmentor]
    while waiting:
        part = waiting.pop(0)
        if id(part) not in seen:
            seen.add(id(part))
            waiting += part.parts()
            yield part
