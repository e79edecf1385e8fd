"""What the benchmarks share: samples taken in turns, their medians and ratios, a table and a JSON file.

A machine is rarely quiet. What is compared is therefore measured in turns, one sample of each a round, and a ratio is
the median of the rounds' ratios: a disturbance that lasts longer than a round meets both sides alike, and one that is
shorter spoils a round and not the result.
"""

import argparse
import json
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from statistics import median, quantiles

from tabulate import tabulate


class Samples:
    """Seconds by name, one sample of each name a round."""

    def __init__(self):
        self.seconds = {}

    def add(self, name, seconds):
        """Add the sample of one round."""
        self.seconds.setdefault(name, []).append(seconds)

    def median(self, name):
        """Return the median over all rounds."""
        return median(self.seconds[name])

    def ratio(self, name, base):
        """Return ``name`` divided by ``base``: the median of the rounds' ratios."""
        pairs = zip(self.seconds[name], self.seconds[base], strict=True)
        return median(value / reference for value, reference in pairs)

    def figures(self):
        """Return what the JSON file holds of each name."""
        return {name: self._figures(name) for name in self.seconds}

    def _figures(self, name):
        samples = self.seconds[name]
        low, _, high = quantiles(samples, n=4) if len(samples) > 1 else samples * 3
        return {"median_secs": median(samples), "quartiles_secs": [low, high], "rounds": len(samples)}


def time_calls(function, count):
    """Return the seconds that one call of ``function`` takes, on average over ``count`` calls in a row."""
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


def environment():
    """Return what the figures depend on."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        **{package: _version(package) for package in ("tensorflow", "keras", "numpy", "tpack")},
    }


def argument_parser(description):
    """Return a parser with the arguments that all benchmarks have."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--out", help="also write the figures to this JSON file")
    return parser


def print_table(title, headers, rows):
    """Print a table under a title."""
    print(f"\n{title}\n{tabulate(rows, headers=headers, floatfmt='.2f')}")


def write_json(path, figures):
    """Write the figures with the environment that they were measured in; do nothing without a path."""
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"environment": environment(), **figures}, file, indent=2)
            file.write("\n")


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None
