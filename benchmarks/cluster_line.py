"""How a process of a row hears what it is to do, and says what it has measured, in lines of JSON.

It is apart, without TensorFlow and tpack, so that the interpreter of another framework can import it.
"""

import json
import sys
import time
from pathlib import Path

MARK = "> "
WIRE = "wire"
"""The device of a process that has one of its own: see `cluster_wire`."""


def place():
    """Return the rank, the addresses and the other arguments of this process, as a `Row` has started it."""
    rank, addresses, *others = sys.argv[1:]
    return int(rank), addresses.split(","), others


def requests():
    """Return what the parent asks for, one after the other, until it is gone."""
    return map(json.loads, sys.stdin)


def say(value):
    """Write one value to the parent."""
    print("\n" + MARK + json.dumps(value), flush=True)


def wire_bytes():
    """Return the bytes that the loopback interface has carried, or the wire of this process; None if nobody counts."""
    counts = _counts()
    if not counts:
        return None
    return int(counts[WIRE][8] if WIRE in counts else counts["lo"][0])


def interface():
    """Return the name of the interface that connects this process with the others."""
    return WIRE if WIRE in _counts() else "lo"


def _counts():
    """Return what the system has counted of each interface; nothing if nobody counts."""
    try:
        lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    return {name.strip(): values.split() for name, _, values in (line.partition(":") for line in lines)}


class Span:
    """The time and the bytes on the wire from here on."""

    def __init__(self):
        self._bytes = wire_bytes()
        self._start = time.perf_counter()

    def over(self, steps):
        """Return the seconds and the bytes of one of so many steps."""
        secs = time.perf_counter() - self._start
        return [secs / steps, None if self._bytes is None else (wire_bytes() - self._bytes) / steps]


def serve_rounds(step, steps):
    """Make a round for each request: one step after which all processes are there, and those that are measured."""
    for _ in requests():
        step()
        span = Span()
        for _ in range(steps):
            step()
        say(span.over(steps))
