"""One page of HTML about runs: zoomable curves, settings, warnings and images.

It is a single file without references, which can be sent, and opened without a network.
"""

import base64
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tpack.callbacks.monitors.run_status import read_run
from tpack.cli.runs.images import latest_images
from tpack.cli.runs.log_parser import read_log
from tpack.cli.runs.terminal import state_of
from tpack.utils.timer import humanize_time_delta
from tpack.version import __version__

_TEMPLATE = os.path.join(os.path.dirname(__file__), "page.html")
_MOST_IMAGES = 24
_KINDS = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"))


def page_of(runs: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]], stats: Sequence[str], axis: str) -> str:
    """Return the page.

    Args:
        runs: {label: (directory, entries of stats.json)}.
        stats: the names of the statistics, a panel for each.
        axis: the initial axis, ``"epoch"`` or ``"step"``.
    """
    shown = [_content(label, directory, entries, stats) for label, (directory, entries) in runs.items()]
    content = {"version": __version__, "axis": axis, "stats": list(stats), "runs": shown}
    with open(_TEMPLATE, encoding="utf-8") as file:
        template = file.read()
    # Logged text must not end the script that contains it.
    return template.replace("@CONTENT@", json.dumps(content, allow_nan=False).replace("<", "\\u003c"))


def _content(label: str, directory: str, entries: Sequence[Mapping[str, Any]], stats: Sequence[str]) -> dict[str, Any]:
    found = latest_images(directory, _MOST_IMAGES)
    images = [{"name": name, "step": step, "src": _source(image)} for name, (step, image) in found.items()]
    log, told = read_log(directory), read_run(directory)
    progress = told.get("progress", {})
    return {
        "label": label,
        "directory": directory,
        "curves": {name: _points(entries, name) for name in stats},
        "images": images,
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
