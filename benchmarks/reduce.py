"""How long a step's reduction takes: every algorithm, alone and with each packing, beside TensorFlow's own.

    python benchmarks/reduce.py --towers 2 8 --out reduce.json

The gradients are the 161 of ResNet-50, and the reduced ones are applied by SGD to a replica in each tower. Each row is
measured in a fresh process. Beside tpack's rows stand the memory floor (K reads and one write of the same bytes, with
all cores and nothing else), TensorFlow's two copy-based cross-device operations on the same tensors, and what
`tf.distribute.MirroredStrategy` does by default. What `choose_by_measurement` takes is measured in the same run.
"""

import sys
from dataclasses import replace
from pathlib import Path

import reduce_baselines
from timing import argument_parser, write_json

from tpack.cli.reduce import MODELS, parse_shapes
from tpack.reduction.autotune.candidates import PACKINGS, refusals
from tpack.reduction.autotune.measure import (
    LIKELY_CANDIDATES,
    MEGABYTE,
    MeasuringOptions,
    format_table,
    make_workload,
    measure_candidate,
    ring_cost,
    sorted_rows,
)
from tpack.reduction.names import ALGORITHMS
from tpack.tower.devices import resolve_devices

EVERYTHING = tuple(algorithm + packing for algorithm in ALGORITHMS for packing in ("", *(f"+{p}" for p in PACKINGS)))
FLOOR = reduce_baselines.FLOOR


def measure_all(towers, shapes, options):
    """Return the rows of tpack's candidates and those of the baselines, all sweeps together."""
    workload = make_workload(resolve_devices(towers), shapes)
    refused = refusals(options.candidates, workload.devices, workload.dtypes)
    for name, reason in refused.items():
        print(f"{name} is left out: {reason}", file=sys.stderr)
    names = tuple(name for name in options.candidates if name not in refused)
    ours = MeasuringOptions(names, options.steps, options.rounds, options.timeout)
    theirs = replace(ours, worker=(sys.executable, str(Path(__file__).with_name("reduce_baselines.py"))))
    jobs = [(name, ours) for name in names] + [(name, theirs) for name in reduce_baselines.BASELINES]
    rows = {}
    for sweep in range(options.sweeps):
        for name, how in jobs:
            print(f"{len(workload.devices)} towers, sweep {sweep + 1} of {options.sweeps}: {name}", file=sys.stderr)
            row = measure_candidate(name, workload, how)
            rows[name] = merge(rows.get(name), row)
    return workload, [rows[name] for name in names], [rows[name] for name in reduce_baselines.BASELINES]


def merge(before, row):
    """Join the rounds of two sweeps; an error in either is the row's."""
    if before is None or before.error or row.error:
        return before if before is not None and before.error else row
    return replace(row, secs=before.secs + row.secs)


def report(workload, ours, baselines):
    """Print one number of towers' table and what follows from it; return the figures for the JSON file."""
    towers, floor = len(workload.devices), baselines[0]
    print(f"\n{towers} towers, {len(workload.shapes)} gradients of {workload.size_bytes / MEGABYTE:.1f} MB together\n")
    print(format_table([*ours, *baselines[1:]]))
    print(f"\n{floor.name}: {floor.median_secs * 1e3:.2f} ms {floor.error}")
    ring, doublings = ring_cost(towers, workload.size_bytes), (towers - 1).bit_length()
    print(
        f"lower bounds: {ring.bytes_moved / MEGABYTE:.1f} MB a device, {doublings} hops; a ring moves as much in "
        f"{ring.latency_steps} hops, halving and doubling in {2 * doublings}"
    )
    likely = sorted_rows([row for row in ours if row.name in LIKELY_CANDIDATES] or ours)[0]
    ratios = {"best row": ratio(likely, sorted_rows(ours)[0]), **{row.name: ratio(likely, row) for row in baselines}}
    print(f"choose_by_measurement takes {likely.name}; its time over that of")
    for name, value in ratios.items():
        print(f"  {name}: {'-' if value is None else format(value, '.2f')}")
    return {"rows": [row.as_json() for row in (*ours, *baselines)], "chosen": likely.name, "ratios": ratios}


def ratio(row, base):
    """Return the ratio of two rows' times, or None where one has none."""
    return None if row.error or base.error else row.median_secs / base.median_secs


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--towers", type=int, nargs="+", default=[2, 4, 8], help="numbers of towers (default: 2 4 8)")
    parser.add_argument("--steps", type=int, default=5, help="steps a round (default: 5)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds in each process (default: 3)")
    parser.add_argument("--sweeps", type=int, default=1, help="processes for each row, in turns (default: 1)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for each process (default: 300)")
    parser.add_argument("--shapes", type=parse_shapes, default=MODELS["resnet50"](), help="such as 784x10,10")
    parser.add_argument("--candidates", nargs="+", default=EVERYTHING, help="tpack's rows (default: all)")
    options = parser.parse_args()
    figures = {}
    for towers in options.towers:
        figures[f"towers={towers}"] = report(*measure_all(towers, options.shapes, options))
    write_json(options.out, {"steps": options.steps, "rounds": options.rounds, "sweeps": options.sweeps, **figures})


if __name__ == "__main__":
    main()
