"""Make small data in the formats that other people's programs read.

Each function returns a maker: called with the folder of the copy, it writes files there. Whatever is random is seeded.
"""

import gzip
import json
import pickle
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Maker = Callable[[Path], None]
WORDS = [first + second + third for first in ("ba", "ko", "li", "mu") for second in "nrst" for third in ("a", "i", "o")]


def text(path: str, content: str | Iterable[str]) -> Maker:
    """Write a text, or lines."""
    return lambda folder: (
        _at(folder, path).write_text(
            content if isinstance(content, str) else "".join(f"{line}\n" for line in content), encoding="utf-8"
        )
        and None
    )


def values(path: str, content: Any) -> Maker:
    """Write what the ending of `path` says: JSON, pickle, or numpy's."""

    def make(folder: Path) -> None:
        target = _at(folder, path)
        if target.suffix == ".json":
            target.write_text(json.dumps(content))
        elif target.suffix == ".npz":
            np.savez(target, **content)
        elif target.suffix == ".npy":
            np.save(target, content)
        else:
            target.write_bytes(pickle.dumps(content, protocol=2))

    return make


def folders(*paths: str) -> Maker:
    """Make empty folders."""
    return lambda folder: [(folder / path).mkdir(parents=True, exist_ok=True) for path in paths] and None


def images(pattern: str, num: int, size: tuple[int, int], *, channels: int = 3) -> Maker:
    """Write images of width and height `size`; `pattern` is their path, with the number in braces."""

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        for index in range(num):
            array = rng.integers(0, 256, (size[1], size[0], channels)).astype(np.uint8)
            Image.fromarray(array if channels > 1 else array[:, :, 0]).save(_at(folder, pattern.format(index)))

    return make


def sentences(path: str, num: int, *, words: list[str] = WORDS, lengths: tuple[int, int] = (4, 12)) -> Maker:
    """Write lines of words; the same number of lines with the same seed for each path."""
    return text(path, sentence_lines(num, words=words, lengths=lengths))


def sentence_lines(
    num: int, *, words: list[str] = WORDS, lengths: tuple[int, int] = (4, 12), seed: int = 0
) -> list[str]:
    """Return lines of words."""
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(words, rng.integers(*lengths))) for _ in range(num)]


def rows(num: int, cell: Callable[[np.random.Generator, int], list[Any]], *, separator: str = ",") -> list[str]:
    """Return lines of cells: `cell` gives those of one row from a generator and the row's number."""
    rng = np.random.default_rng(0)
    return [separator.join(str(value) for value in cell(rng, index)) for index in range(num)]


def idx_digits(folder_path: str, *, ending: str = "") -> Maker:
    """Write the four files of MNIST in their own format and number; with ending ``.gz`` they are compressed."""

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        for prefix, num in (("train", 60000), ("t10k", 10000)):
            pictures = np.resize(rng.integers(0, 256, (10, 28, 28)).astype(np.uint8), (num, 28, 28))
            labels = np.resize(np.arange(10, dtype=np.uint8), num)
            for kind, header, array in (
                ("images-idx3", struct.pack(">iiii", 2051, num, 28, 28), pictures),
                ("labels-idx1", struct.pack(">ii", 2049, num), labels),
            ):
                data = header + array.tobytes()
                target = _at(folder, f"{folder_path}/{prefix}-{kind}-ubyte{ending}")
                target.write_bytes(gzip.compress(data, 1) if ending == ".gz" else data)

    return make


def _at(folder: Path, path: str) -> Path:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
