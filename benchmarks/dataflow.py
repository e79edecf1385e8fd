"""The data side, measured part by part: from worker processes to the consumer, from images to batches, into the graph.

    python benchmarks/dataflow.py --part transport tiny --rounds 5 --out dataflow.json

Parts: ``transport``, batches of 64 x 224 x 224 x 3 bytes from one and two workers in GB/s; ``images``, JPEGs decoded
and augmented per second (needs OpenCV); ``tiny``, points of eight floats per second; ``graph``, batches per second that
reach a step (needs TensorFlow). What each is compared with is said in the module that measures it; packages to compare
with that are not installed are left out.
"""

import importlib
import os

import dataflow_transport
from timing import argument_parser, print_table, write_json


def report_transport(options):
    """Measure batches with each number of workers; print a table and return the figures."""
    figures = {}
    for workers in options.workers:
        found = dataflow_transport.measure_batches(
            workers, batches=options.batches, rounds=options.rounds, chosen=options.ways
        )
        rows = [
            (name, rate, found["of_memcpy"][name], found["of_memcpy_read"].get(name))
            for name, rate in found["gb_per_sec"].items()
        ]
        columns = ("way", "GB/s", "of memcpy", "of memcpy and read")
        print_table(f"batches of images, workers: {workers}", columns, rows)
        figures[f"workers={workers}"] = found
    return figures


def report_tiny(options):
    """Measure tiny points with each number of workers; print a table and return the figures."""
    figures = {}
    for workers in options.workers:
        found = dataflow_transport.measure_tiny(
            workers, points=options.points, rounds=options.rounds, chosen=options.ways
        )
        rows = [(name, rate, found["tpack_over"].get(name)) for name, rate in found["points_per_sec"].items()]
        print_table(f"points of 8 floats, workers: {workers}", ("way", "points/s", "tpack is faster by"), rows)
        figures[f"workers={workers}"] = found
    return figures


def report_images(options):
    """Measure images; print the tables and return the figures."""
    return importlib.import_module("dataflow_images").report(options.images, options.rounds, max(options.workers))


def report_graph(options):
    """Measure the ways into the graph; print the tables and return the figures."""
    return importlib.import_module("dataflow_graph").report(options.steps, options.rounds)


# The modules of the last two load what only they need.
PARTS = {"transport": report_transport, "images": report_images, "tiny": report_tiny, "graph": report_graph}


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of workers (default: 1 2)")
    parser.add_argument("--batches", type=int, default=100, help="batches of a round (default: 100)")
    parser.add_argument("--images", type=int, default=4000, help="images of a round (default: 4000)")
    parser.add_argument("--steps", type=int, default=200, help="steps of a round into the graph (default: 200)")
    parser.add_argument("--points", type=int, default=100_000, help="tiny points of a round (default: 100000)")
    parser.add_argument("--ways", nargs="+", choices=dataflow_transport.WAYS, help="default: all that are installed")
    options = parser.parse_args()
    figures = {part: PARTS[part](options) for part in options.part}
    write_json(options.out, {"rounds": options.rounds, "load_average": os.getloadavg()[0], **figures})


if __name__ == "__main__":
    main()
