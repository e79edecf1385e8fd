"""``docs/images/what_travels.svg``: what two workers send each other in eight steps, for each choice.

python -m tools.docs.travel_picture        writes it

A bar is what one worker sends in a step of a square matrix: its height is the share of the bytes of plain gradients,
which codecs compute from their own sizes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import tensorflow.compat.v1 as tf

from tests.helpers.source import ROOT
from tpack.multi_worker.codecs.names import make_exchange

FILE = ROOT / "docs" / "images" / "what_travels.svg"
SIDE = 3072
STEPS = 8
LABEL, CELL, HEIGHT, GAP, TOP, RIGHT = 178, 44, 30, 10, 34, 176
GRADIENTS, WEIGHTS, AXIS = "#b7791f", "#2f7d3f", "#c8c8c8"


@dataclass(frozen=True)
class Choice:
    """What a worker sends.

    Attributes:
        name: the argument.
        note: what is in a message.
        gradients: the bytes of gradients in a step in which something travels, over those of plain ones.
        weights: those of weights.
        period: in how many steps something travels.
    """

    name: str
    note: str
    gradients: float = 1.0
    weights: float = 0.0
    period: int = 1

    @property
    def share(self) -> float:
        """The bytes of a step on average, over those of plain gradients."""
        return (self.gradients + self.weights) / self.period


def encoded(text: str, note: str) -> Choice:
    """Return the choice of a codec, or of a type for the wire."""
    exchange = make_exchange(text)
    plain = SIDE * SIDE * tf.float32.size
    if exchange.codec is None:
        size = SIDE * SIDE * exchange.dtype_on_wire(tf.float32).size
    else:
        size = exchange.codec.size_bytes([SIDE, SIDE], tf.float32)
    return Choice(f'exchange="{text}"', note, size / plain)


def choices() -> list[Choice]:
    """Return all choices, in the order of the page."""
    return [
        Choice("no argument", "gradients, 32 bits"),
        encoded("float16", "gradients, 16 bits"),
        encoded("int8", "8 bits, ranges of 2,048"),
        encoded("one_bit", "signs, sizes of 2,048"),
        encoded("top_k:0.01", "the largest, with places"),
        encoded("power_sgd:4", "two factors of rank 4"),
        # Two workers own half of the gradients each; a gradient goes to its owner, and what it combined comes back.
        Choice('exchange="adasum"', "gradients, and what came of them", 1.0),
        Choice("accumulate=4", "sums of gradients", period=4),
        Choice("sync_every_steps=8", "weights", 0.0, 1.0, period=8),
        Choice("shard_optimizer=True", "gradients, then weights", 0.5, 0.5),
    ]


def picture() -> str:
    """Return the picture as text."""
    drawn = choices()
    width, height = LABEL + STEPS * CELL + RIGHT, TOP + len(drawn) * (HEIGHT + GAP) + 6
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="Helvetica, Arial, sans-serif">'
    lines = [head, f'<rect width="{width}" height="{height}" fill="#fafafa"/>']
    lines += [_text(LABEL + (n + 0.5) * CELL, 20, f"step {n + 1}", anchor="middle") for n in range(STEPS)]
    for number, choice in enumerate(drawn):
        lines += _row(choice, TOP + number * (HEIGHT + GAP))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _row(choice: Choice, top: float) -> Iterator[str]:
    base = top + HEIGHT
    yield _text(LABEL - 10, base - 10, choice.name, anchor="end", weight="bold")
    yield f'<path d="M{LABEL},{base} H{LABEL + STEPS * CELL}" stroke="{AXIS}"/>'
    for step in range(choice.period, STEPS + 1, choice.period):
        below = base
        for share, color in ((choice.gradients, GRADIENTS), (choice.weights, WEIGHTS)):
            if share:
                height = max(1.0, share * HEIGHT)
                below -= height
                place = f'x="{LABEL + (step - 1) * CELL + 6}" y="{below:g}" width="{CELL - 12}" height="{height:g}"'
                yield f'<rect {place} fill="{color}"/>'
    yield _text(LABEL + STEPS * CELL + 8, base - 14, f"{choice.share:.2%}".replace(".00%", "%").replace("%", " %"))
    yield _text(LABEL + STEPS * CELL + 8, base - 1, choice.note, size=11, color="#555")


def _text(
    x: float, y: float, text: str, *, size: int = 12, weight: str = "normal", color: str = "#222", anchor: str = "start"
) -> str:
    style = f'font-size="{size}" font-weight="{weight}" fill="{color}" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(text)}</text>'


def main() -> None:
    """Write the picture."""
    FILE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
