"""``docs/images/trainer_*.svg``: where the variables, gradients, reductions and updates of each trainer are.

python -m tools.docs.trainer_pictures        writes them

Nothing in them is drawn by hand: `tools.docs.step_graphs` builds a trainer's graph on logical CPU devices and reads
what a step consists of out of it; a column is drawn for each device, with a row for each kind of part.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape

from tests.helpers.source import ROOT
from tools.docs.step_graphs import ADDS, NAMES, Part, StepGraph, step_graph
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.trainer import StrategyBuilder
from tpack.graph_builder.base import GraphBuilder
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import AsyncMultiGPUBuilder, SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.parameter_server import ParameterServerBuilder, ServerPlacement
from tpack.multi_worker.ps_replicated import ReplicatedParameterServerBuilder
from tpack.multi_worker.replicated_builder import MultiWorkerReplicatedBuilder
from tpack.multi_worker.staleness import Progress
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.modes import reducer_for_towers

FOLDER = ROOT / "docs" / "images"
KINDS = {
    "variable": ("variables", "#dbe9f9", "#2b6cb0"),
    "gradient": ("gradients", "#fdeacb", "#b7791f"),
    "reduce": ("reduction", "#f6dced", "#a3307d"),
    "queue": ("queues", "#e3e3e3", "#555555"),
    "update": ("updates", "#d8f0dc", "#2f7d3f"),
    "copy": ("copies", "#d8f0dc", "#2f7d3f"),
}
"""The rows from top to bottom: what they are called, and their colours."""

LEFT, TOP, HEAD, GUTTER = 84, 8, 30, 20
BOX, GAP, HEIGHT, BETWEEN, ROUND = 80, 10, 34, 46, 84
COLUMN = 2 * GUTTER + 2 * BOX + GAP


def _replicated(num_towers: int, mode: str | None = None) -> Callable[[], GraphBuilder]:
    def make() -> GraphBuilder:
        reducer = reducer_for_towers(num_towers, mode).reducer
        return SyncMultiGPUReplicatedBuilder(num_towers, reducer=reducer, tower_building="build")

    return make


def _placement() -> ServerPlacement:
    return ServerPlacement(ClusterMember({"worker": ("a:1", "b:1"), "ps": ("c:1", "d:1")}), "run")


def _multi_worker() -> GraphBuilder:
    group = WorkerGroup(["/job:worker/task:0", "/job:worker/task:1"], 0, "run")
    return MultiWorkerReplicatedBuilder(2, group, tower_building="build")


PICTURES: dict[str, Callable[[], GraphBuilder]] = {
    "simple": SimpleBuilder,
    "replicated": _replicated(2),
    "replicated_xring": _replicated(3, "xring"),
    "hierarchical": _replicated(4, "hierarchical"),
    "parameter_server": lambda: SyncMultiGPUParameterServerBuilder(2, tower_building="build"),
    "async": lambda: AsyncMultiGPUBuilder(2, tower_building="build"),
    "strategy": lambda: StrategyBuilder(MirroredStrategy(num_gpus=2)),
    "multi_worker": _multi_worker,
    "distributed_async": lambda: ParameterServerBuilder(1, _placement(), stop_flag=StopFlag(), progress=Progress(0, 2)),
    "distributed_sync": lambda: ParameterServerBuilder(1, _placement(), stop_flag=StopFlag()),
    "distributed_replicated": lambda: ReplicatedParameterServerBuilder(
        2, _placement(), stop_flag=StopFlag(), tower_building="build"
    ),
}
"""The pictures, by the end of the name of their file."""


def files() -> Iterator[tuple[str, str]]:
    """Yield the name of each picture's file, and the picture."""
    for name, make in PICTURES.items():
        yield f"trainer_{name}.svg", Drawing(step_graph(make)).svg()


@dataclass(frozen=True)
class Box:
    """A rectangle with a text.

    Attributes:
        x: Its left.
        y: Its top.
        width: Its width.
        label: What stands in it.
        part: What it shows.
    """

    x: float
    y: float
    width: float
    label: str
    part: Part

    @property
    def kind(self) -> str:
        """Its row."""
        return self.part.kind

    @property
    def middle(self) -> float:
        """The x of its middle."""
        return self.x + self.width / 2


class Drawing:
    """A step, drawn: a column for each device, a row for each kind of part, and arrows for the values that flow."""

    def __init__(self, step: StepGraph) -> None:
        self._step = step
        self._rows = [kind for kind in KINDS if any(part.kind == kind for part in step.parts)]
        self._tops = self._row_tops()
        self._boxes = {part: self._box(part) for part in sorted(step.parts, key=str)}
        self._width = LEFT + COLUMN * len(step.devices) + GUTTER
        self._height = self._tops[-1] + HEIGHT + 22

    def svg(self) -> str:
        """Return the picture as text."""
        size = f'width="{self._width}" height="{self._height}" viewBox="0 0 {self._width} {self._height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="Helvetica, Arial, sans-serif">'
        lines = [head, *self._markers(), *self._columns(), *self._arrows(), *map(_rectangle, self._boxes.values())]
        return "\n".join([*lines, "</svg>"]) + "\n"

    def _box(self, part: Part) -> Box:
        left = LEFT + COLUMN * self._step.devices.index(part.device) + GUTTER
        first = NAMES.index(part.variables[0]) if part.variables else 0
        count = len(part.variables) or len(NAMES)
        y = self._tops[self._rows.index(part.kind)]
        width = count * BOX + (count - 1) * GAP
        return Box(left + first * (BOX + GAP), y, width, _label(part, self._step.parts[part]), part)

    def _row_tops(self) -> list[int]:
        """Return where rows begin; there is more room below those in which values go from device to device."""
        round_rows = {source.kind for source, target in self._step.edges if source.kind == target.kind}
        tops = [TOP + HEAD + 12]
        for kind in self._rows[:-1]:
            tops.append(tops[-1] + HEIGHT + (ROUND if kind in round_rows else BETWEEN))
        return tops

    def _markers(self) -> Iterator[str]:
        yield "<defs>"
        for kind, (_, _, line) in KINDS.items():
            shape = f'<path d="M0,0 L7,3 L0,6 z" fill="{line}"/>'
            place = 'markerWidth="7" markerHeight="6" refX="6.5" refY="3" orient="auto" markerUnits="userSpaceOnUse"'
            yield f'<marker id="{kind}" {place}>{shape}</marker>'
        yield "</defs>"

    def _columns(self) -> Iterator[str]:
        """Yield the devices, and what the rows are called."""
        for index, device in enumerate(self._step.devices):
            x = LEFT + COLUMN * index + 4
            place = f'x="{x}" y="{TOP}" width="{COLUMN - 8}" height="{self._height - TOP - 8}" rx="8"'
            yield f'<rect {place} fill="#fafafa" stroke="#c8c8c8"/>'
            title = _title(device, has_workers=any("job:" in each for each in self._step.devices))
            yield _text(x + COLUMN / 2 - 4, TOP + 20, title, size=13, weight="bold")
        for kind, top in zip(self._rows, self._tops, strict=True):
            yield _text(LEFT - 8, top + HEIGHT / 2 + 4, KINDS[kind][0], color=KINDS[kind][2], anchor="end")

    def _arrows(self) -> Iterator[str]:
        edges = sorted(self._step.edges, key=str)
        ports = self._spread(edges)
        for edge in edges:
            source, target = (self._boxes[part] for part in edge)
            is_local = edge[0].device == edge[1].device
            style = f'fill="none" stroke="{KINDS[source.kind][2]}" marker-end="url(#{source.kind})"'
            style += ' stroke-width="1.2"' if is_local else ' stroke-width="1.8"'
            yield f'<path d="{_path(source, target, ports[edge])}" {style}/>'

    def _spread(self, edges: list[tuple[Part, Part]]) -> dict[tuple[Part, Part], tuple[float, float]]:
        """Return where each arrow begins and ends: beside each other where several do so at the same side of a box."""
        sides: dict[tuple[Part, str], list[tuple[float, tuple[Part, Part], int]]] = defaultdict(list)
        for edge in edges:
            source, target = (self._boxes[part] for part in edge)
            begin, end = _sides(source, target)
            sides[edge[0], begin].append((target.middle, edge, 0))
            sides[edge[1], end].append((source.middle, edge, 1))
        places: dict[tuple[Part, Part], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for (part, _), ends in sides.items():
            box = self._boxes[part]
            for number, (_, edge, which) in enumerate(sorted(ends, key=lambda end: (end[0], end[2], str(end[1])))):
                places[edge][which] = box.x + box.width * (number + 1) / (len(ends) + 1)
        return {edge: (begin, end) for edge, (begin, end) in places.items()}


def _sides(source: Box, target: Box) -> tuple[str, str]:
    if source.kind in ("update", "copy") and target.kind == "variable":
        return "side", "side"
    if source.y == target.y:
        return "bottom", "bottom"
    return ("bottom", "top") if source.y < target.y else ("top", "bottom")


def _path(source: Box, target: Box, ports: tuple[float, float]) -> str:
    """Return the way of an arrow: between rows, round below one, or along the gutter from an update to its variable."""
    begin, end = _sides(source, target)
    if begin == "side":
        is_left = source.part.variables[:1] == NAMES[:1]
        x = source.x if is_left else source.x + source.width
        out = x - GUTTER * 0.55 if is_left else x + GUTTER * 0.55
        top = target.y + HEIGHT / 2
        return f"M{x:g},{source.y + HEIGHT / 2:g} H{out:g} V{top:g} H{x:g}"
    y_begin = source.y + (HEIGHT if begin == "bottom" else 0)
    y_end = target.y + (HEIGHT if end == "bottom" else 0)
    bend = ROUND * 0.6 if begin == end else (y_end - y_begin) * 0.5
    y_last = y_end + bend if begin == end else y_end - bend
    return f"M{ports[0]:g},{y_begin:g} C{ports[0]:g},{y_begin + bend:g} {ports[1]:g},{y_last:g} {ports[1]:g},{y_end:g}"


def _rectangle(box: Box) -> str:
    _, fill, line = KINDS[box.kind]
    place = f'x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{HEIGHT}" rx="5"'
    return f'<rect {place} fill="{fill}" stroke="{line}"/>' + _text(box.middle, box.y + HEIGHT / 2 + 4, box.label)


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 12,
    weight: str = "normal",
    color: str = "#222",
    anchor: str = "middle",
) -> str:
    style = f'font-size="{size}" font-weight="{weight}" fill="{color}" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(text)}</text>'


def _title(device: str, *, has_workers: bool) -> str:
    *task, place = device.removeprefix("/").split("/")
    task = task or (["job:worker", "task:0"] if has_workers else [])
    process = " ".join(part.replace("job:", "").replace("task:", "") for part in task)
    where = place.removeprefix("device:").replace(":", " ")
    return f"{process}, {where}" if process else where


def _label(part: Part, operations: list[str]) -> str:
    names, gradients = ", ".join(part.variables), ", ".join(f"∂{name}" for name in part.variables)
    types = {operation.split()[0] for operation in operations}
    if part.kind == "reduce":
        what = "Σ {}" if types <= set(ADDS) else "mean {}" if types & set(ADDS) else "{} / K"
        return what.format(gradients)
    if part.kind == "update":
        return f"update {names}" + (f" {len(operations)}×" if len(operations) > 1 else "")
    return names if part.kind in ("variable", "copy") else gradients


def main() -> None:
    """Write the pictures."""
    for name, text in files():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
