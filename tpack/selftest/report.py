"""The report of ``tpack selftest``: text for an issue, a dict for JSON, and a picture. It needs no TensorFlow."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tabulate import tabulate

from tpack.selftest.runner import NOT_RUN, RIGHT, SKIPPED, WRONG, Machine, Outcome, all_is_right, by_name
from tpack.utils.lazy import import_optional
from tpack.version import __version__

_COLOURS = {RIGHT: "#009E73", WRONG: "#D55E00", SKIPPED: "#BBBBBB", NOT_RUN: "#E69F00"}
_INK, _LINE = "#333333", "#0072B2"
_LOW_SHARE_OF_LINEAR = 0.8
_DETAIL_LINES = 12
_ROW_INCHES, _PANEL_INCHES = 0.22, 3.6


def text_of(machine: Machine | None, outcomes: Sequence[Outcome]) -> str:
    """Return the report as a block for an issue: the verdict, each check, what is wrong and what to set, figures."""
    parts = [verdict(outcomes)]
    parts += [outcome.figures["environment"] for outcome in by_name(outcomes, "devices") if outcome.figures]
    rows = [(each.name, each.result, f"{each.secs:.1f}", each.text) for each in outcomes]
    headers = ["check", "result", "s", "found"]
    parts.append(tabulate(rows, headers=headers, disable_numparse=True, maxcolwidths=[None, None, None, 84]))
    parts += _faults(outcomes)
    advice = [f"{each.name}: {each.advice}" for each in outcomes if each.result == RIGHT and each.advice]
    advice += _advice_on_scaling(machine, outcomes)
    if advice:
        parts.append("\n".join(["Faster:", *advice]))
    parts += [*_copies(outcomes), *_all_reduce(outcomes), *_images(machine, outcomes)]
    return "\n\n".join(["```\n" + parts[0], *parts[1:-1], parts[-1] + "\n```"]) + "\n"


def verdict(outcomes: Sequence[Outcome]) -> str:
    """Return the line that says whether all is right."""
    secs = sum(outcome.secs for outcome in outcomes)
    numbers = {kind: sum(each.result == kind for each in outcomes) for kind in (RIGHT, WRONG, SKIPPED, NOT_RUN)}
    counted = ", ".join(f"{number} {kind}" for kind, number in numbers.items() if number)
    names = ", ".join(each.name for each in outcomes if each.result in (WRONG, NOT_RUN))
    told = "all is right" if all_is_right(outcomes) else f"not all is right ({names})"
    return f"tpack {__version__} selftest: {told}; {len(outcomes)} checks in {secs:.0f} s: {counted}"


def _faults(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a paragraph for each check that is wrong: what it proves, what was found, what to set."""
    for each in outcomes:
        if each.result not in (WRONG, NOT_RUN):
            continue
        lines = [f"{each.result.upper()}: {each.name}", f"  expected: {each.proves}", f"  found: {each.text}"]
        lines += [f"  to set or to try: {each.advice}"] if each.advice else []
        lines += [f"    {line}" for line in each.details.splitlines()[-_DETAIL_LINES:]]
        yield "\n".join(lines)


def _copies(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for each in by_name(outcomes, "copies"):
        table = each.figures.get("gigabytes_per_sec")
        if table:
            rows = [(i, *("" if rate is None else f"{rate:.1f}" for rate in row)) for i, row in enumerate(table)]
            headers = ["from \\ to", *range(len(table))]
            yield "Copies between devices, GB/s\n" + tabulate(rows, headers=headers, disable_numparse=True)
    for each in by_name(outcomes, "host copies"):
        if each.figures:
            ways = zip(each.figures["to_devices"], each.figures["from_devices"], strict=True)
            rows = [(k, f"{to:.1f}", f"{back:.1f}") for k, (to, back) in enumerate(ways)]
            headers = ["device", "from the host", "to the host"]
            yield "Copies from and to the host, GB/s\n" + tabulate(rows, headers=headers, disable_numparse=True)


def _all_reduce(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for each in by_name(outcomes, "all-reduce"):
        found = each.figures
        if found:
            rows = [
                (name, f"{row['ms']:.2f}", f"{row['gigabytes_per_sec']:.2f}", f"{row['share_of_best']:.2f}")
                for name, row in found["rows"].items()
            ]
            headers = ["reducer", "ms", "GB/s a device", "share of the best possible"]
            told = f"All-reduce of {found['megabytes']:.0f} MB; {found['best_possible_ms']:.2f} ms is the best possible"
            yield f"{told}\n{tabulate(rows, headers=headers, disable_numparse=True)}"


def scaling(outcomes: Sequence[Outcome]) -> list[tuple[int, float, float | None]]:
    """Return numbers of devices, images a second, and shares of linear, None without one device of the same batch."""
    found = sorted((each.figures for each in by_name(outcomes, "images") if each.figures), key=lambda f: f["count"])
    one = {each["batch"]: each["images_per_sec"] for each in found if each["count"] == 1}
    rows = []
    for each in found:
        base = one.get(each["batch"])
        share = each["images_per_sec"] / (each["count"] * base) if base else None
        rows.append((each["count"], each["images_per_sec"], share))
    return rows


def _images(machine: Machine | None, outcomes: Sequence[Outcome]) -> Iterator[str]:
    rows = [(count, f"{rate:.1f}", "" if share is None else f"{share:.2f}") for count, rate, share in scaling(outcomes)]
    if rows:
        found = next(each.figures for each in by_name(outcomes, "images") if each.figures)
        size = f"{found['pixels']} x {found['pixels']} pixels, {found['batch']} a device, {found['dtype']}"
        shared = "" if machine is None or machine.has_gpus else "; logical CPU devices share the cores"
        table = tabulate(rows, headers=["devices", "images/s", "share of linear"], disable_numparse=True)
        yield f"Training of {found['network']}, {size}{shared}\n{table}"


def _advice_on_scaling(machine: Machine | None, outcomes: Sequence[Outcome]) -> Iterator[str]:
    if machine is None or not machine.has_gpus:
        return
    for count, _, share in scaling(outcomes)[-1:]:
        if share is not None and share < _LOW_SHARE_OF_LINEAR:
            yield (
                f"images: {count} devices reach {share:.0%} of linear. Use the fastest reducer of the table as mode=; "
                "set TF_GPU_THREAD_MODE=gpu_private and TF_GPU_THREAD_COUNT=2; larger batches send less for each image."
            )


def json_of(machine: Machine | None, outcomes: Sequence[Outcome]) -> str:
    """Return the report as JSON."""
    report: Mapping[str, Any] = {
        "tpack": __version__,
        "all_is_right": all_is_right(outcomes),
        "machine": None if machine is None else asdict(machine),
        "outcomes": [asdict(outcome) for outcome in outcomes],
        "scaling": scaling(outcomes),
    }
    return json.dumps(report, indent=2) + "\n"


def draw(outcomes: Sequence[Outcome]) -> Any:
    """Return a ``matplotlib.figure.Figure`` with the checks, the all-reduces, the images and the copies.

    Raises:
        DependencyError: matplotlib is not installed.
    """
    draws = [_draw_checks]
    draws += [_draw_all_reduce] if any(each.figures for each in by_name(outcomes, "all-reduce")) else []
    draws += [_draw_images] if scaling(outcomes) else []
    tables = (each.figures.get("gigabytes_per_sec") for each in by_name(outcomes, "copies"))
    draws += [_draw_copies] if any(tables) else []
    height = max(_PANEL_INCHES, _ROW_INCHES * len(outcomes) + 1)
    size = (_PANEL_INCHES * (len(draws) + 0.6), height)
    figure = import_optional("matplotlib.figure", "plot").Figure(figsize=size, layout="constrained")
    widths = [1.6, *[1.0] * (len(draws) - 1)]
    panels = figure.subplots(1, len(draws), squeeze=False, width_ratios=widths)[0]
    for panel, draw_one in zip(panels, draws, strict=True):
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=7, colors=_INK)
        draw_one(panel, outcomes)
        panel.set_title(panel.get_title(), fontsize=9, color=_INK)
    figure.suptitle(verdict(outcomes), fontsize=9, color=_INK, wrap=True)
    return figure


def _draw_checks(panel: Any, outcomes: Sequence[Outcome]) -> None:
    colours = [_COLOURS[each.result] for each in outcomes]
    panel.barh([each.name for each in outcomes], [each.secs for each in outcomes], color=colours)
    for number, each in enumerate(outcomes):
        panel.text(each.secs, number, f" {each.result}", va="center", fontsize=7, color=_COLOURS[each.result])
    panel.invert_yaxis()
    panel.margins(x=0.15)
    panel.set_xlabel("seconds", fontsize=8)
    panel.set_title("checks")


def _draw_all_reduce(panel: Any, outcomes: Sequence[Outcome]) -> None:
    found = next(each.figures for each in by_name(outcomes, "all-reduce") if each.figures)
    names = list(found["rows"])
    panel.barh(names, [found["rows"][name]["ms"] for name in names], color=_LINE)
    panel.axvline(found["best_possible_ms"], color=_COLOURS[RIGHT], linestyle="--")
    panel.text(found["best_possible_ms"], len(names) - 0.4, " best possible", fontsize=7, color=_COLOURS[RIGHT])
    panel.invert_yaxis()
    panel.set_xlabel(f"ms for {found['megabytes']:.0f} MB", fontsize=8)
    panel.set_title("all-reduce")


def _draw_images(panel: Any, outcomes: Sequence[Outcome]) -> None:
    rows = scaling(outcomes)
    counts, rates = [count for count, *_ in rows], [rate for _, rate, _ in rows]
    panel.plot(counts, rates, marker="o", color=_LINE, label="measured")
    if rows[0][0] == 1:
        panel.plot(counts, [count * rates[0] for count in counts], "--", color=_COLOURS[RIGHT], label="linear")
    panel.set_xticks(counts)
    panel.set_ylim(bottom=0)
    panel.set_xlabel("devices", fontsize=8)
    panel.legend(fontsize=7, frameon=False)
    panel.set_title("images a second")


def _draw_copies(panel: Any, outcomes: Sequence[Outcome]) -> None:
    table = next(each.figures["gigabytes_per_sec"] for each in by_name(outcomes, "copies"))
    rates = [[float("nan") if rate is None else rate for rate in row] for row in table]
    panel.imshow(rates, cmap="viridis", vmin=0)
    for i, row in enumerate(table):
        for j, rate in enumerate(row):
            if rate is not None:
                panel.text(j, i, f"{rate:.0f}", ha="center", va="center", fontsize=7, color="white")
    panel.set_xticks(range(len(table)))
    panel.set_yticks(range(len(table)))
    panel.set_xlabel("to", fontsize=8)
    panel.set_ylabel("from", fontsize=8)
    panel.set_title("copies, GB/s")
