"""One page of HTML about runs: zoomable curves, settings, warnings and images.

It is a single file without references, which can be sent, and opened without a network. The images come from
TensorFlow's event files, read without TensorFlow. Such a file is a sequence of records: length, checksum, content,
checksum. The content is an ``Event`` of protocol buffers, of which only ``summary.value.image`` is read. An incomplete
record, which is being written, ends the file.
"""

import base64
import glob
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tpack.callbacks.monitors.run_status import read_run
from tpack.cli.runs.terminal import read_log, state_of
from tpack.utils.fs import open_regular
from tpack.utils.timer import humanize_time_delta
from tpack.version import __version__

_FOLDER = os.path.dirname(__file__)
_MOST_IMAGES = 24
SCALING_PICTURE = "scale.png"
"""The curves of ``tpack scale``, which the page shows where they are in the directory of the run."""
_KINDS = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"))


_LENGTH_BYTES, _CHECKSUM_BYTES = 12, 4

_STEP, _SUMMARY, _VALUE, _TAG, _IMAGE, _ENCODED = 2, 5, 1, 1, 4, 4

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def page_of(runs: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]], stats: Sequence[str], axis: str) -> str:
    """Return the page.

    Args:
        runs: {label: (directory, entries of stats.json)}.
        stats: the names of the statistics, a panel for each.
        axis: the initial axis, ``"epoch"`` or ``"step"``.
    """
    shown = [_content(label, directory, entries, stats) for label, (directory, entries) in runs.items()]
    content = {"version": __version__, "axis": axis, "stats": list(stats), "runs": shown}
    return filled("page.html", content)


def filled(template: str, content: Mapping[str, Any], nonce: str = "") -> str:
    """Return a page of this folder with styles, script and content inside.

    Args:
        template: the name of its file.
        content: what its script shows, without NaN.
        nonce: marks the styles and scripts that a served page may use.
    """
    text, style, script = (_read(name) for name in (template, "runs.css", "runs.js"))
    # Logged text must not end the script that contains it.
    told = json.dumps(content, allow_nan=False).replace("<", "\\u003c")
    # The content comes last: it may hold any text.
    page = text.replace("@NONCE@", nonce).replace("@STYLE@", style).replace("@SCRIPT@", script)
    return page.replace("@CONTENT@", told)


def _read(name: str) -> str:
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()


def _content(label: str, directory: str, entries: Sequence[Mapping[str, Any]], stats: Sequence[str]) -> dict[str, Any]:
    found = latest_images(directory, _MOST_IMAGES)
    images = [{"name": name, "step": step, "src": _source(image)} for name, (step, image) in found.items()]
    picture = os.path.join(directory, SCALING_PICTURE)
    if os.path.isfile(picture):
        with open(picture, "rb") as file:
            images.append({"name": SCALING_PICTURE, "step": 0, "src": _source(file.read())})
    curves = {name: _points(entries, name) for name in stats}
    return {"label": label, "curves": curves, "images": images, **settings_of(directory)}


def settings_of(directory: str) -> dict[str, Any]:
    """Return how a run was set up and how it goes, with its warnings, as texts by name.

    Args:
        directory: the run's.

    Raises:
        CallbackError: Its ``run.json`` is damaged.
        InputError: Its log is no regular file.
    """
    log, told = read_log(directory), read_run(directory)
    progress = told.get("progress", {})
    return {
        "directory": directory,
        "warnings": log.warnings,
        "last": log.last,
        "began": told.get("began", ""),
        "state": state_of(told),
        "epoch": progress.get("epoch", 0),
        "epoch_time": humanize_time_delta(progress["epoch_secs"]) if "epoch_secs" in progress else "",
        "command": told.get("command", ""),
        "versions": _as_texts(told.get("versions", {})),
        "config": _as_texts(told.get("config", {})),
    }


def _as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: ", ".join(map(str, each)) if isinstance(each, list) else str(each) for key, each in values.items()}


def _points(entries: Sequence[Mapping[str, Any]], name: str) -> list[list[Any]]:
    """Return the epoch, step and value of each entry; None for values that are not finite."""
    return [
        [entry.get("epoch_num"), entry.get("global_step"), entry[name] if math.isfinite(entry[name]) else None]
        for entry in entries
        if isinstance(entry.get(name), int | float)
    ]


def _source(image: bytes) -> str:
    kind = next((kind for start, kind in _KINDS if image.startswith(start)), "image/png")
    return f"data:{kind};base64,{base64.b64encode(image).decode('ascii')}"


def latest_images(directory: str, at_most: int) -> dict[str, tuple[int, bytes]]:
    """Return the last images of a run, for at most ``at_most`` names: {name: (step, encoded image)}, sorted by name."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), "events.out.tfevents.*"))):
        for name, step, image in _images_in(path):
            found[name] = (step, image)
    return dict(sorted(found.items())[:at_most])


def _images_in(path: str) -> Iterator[tuple[str, int, bytes]]:
    for record in _records(path):
        step, values = 0, []
        for number, content in _fields(record):
            if number == _STEP and isinstance(content, int):
                step = content
            elif number == _SUMMARY and isinstance(content, bytes):
                values += [value for key, value in _fields(content) if key == _VALUE and isinstance(value, bytes)]
        for value in values:
            fields = dict(_fields(value))
            tag, image = fields.get(_TAG, b""), fields.get(_IMAGE)
            if isinstance(tag, bytes) and isinstance(image, bytes):
                encoded = dict(_fields(image)).get(_ENCODED)
                if isinstance(encoded, bytes):
                    yield tag.decode(errors="replace"), step, encoded


def _records(path: str) -> Iterator[bytes]:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        while len(header := file.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            (length,) = struct.unpack("<Q", header[:8])
            if length + _CHECKSUM_BYTES > size - file.tell():
                return
            content = file.read(length + _CHECKSUM_BYTES)
            if len(content) < length + _CHECKSUM_BYTES:
                return
            yield content[:length]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the content of each field of a message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            content: int | bytes
            content, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            content, at = message[at : at + size], at + size
        elif kind == _BYTES:
            size, at = _varint(message, at)
            content, at = message[at : at + size], at + size
        else:
            return
        yield key >> 3, content


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number, and the position after it."""
    number = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return number, at
