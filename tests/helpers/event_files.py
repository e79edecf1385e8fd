"""Read the numbers in a directory's event files."""

from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf


def scalars_in(directory: Any) -> dict[str, list[tuple[int, float]]]:
    """Return (step, value) pairs by tag, of all event files in the directory in the order of their names."""
    found: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(Path(directory).glob("events.out.tfevents.*")):
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.WhichOneof("value") == "simple_value":
                    found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found
