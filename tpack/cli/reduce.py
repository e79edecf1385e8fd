"""``tpack reduce``: measure the reductions for a model's gradients and say which one is the fastest here.

The shapes of the gradients of well-known models are known here, so that the model need not be built. A training script
runs in a process of its own until its first tower is built: nothing is trained, and its log directory is replaced by
another, so it is neither moved nor deleted. What reduces gradients is imported when the command runs: it needs
TensorFlow, and reading the arguments or showing help does not.
"""

import argparse
import importlib
import json
import os
import runpy
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from tpack.errors import ConfigError
from tpack.utils.python_child import ChildError, python_child, python_command

# Copies of the names in `tpack.reduction`, for help without TensorFlow; a test compares them.
_ALGORITHMS = ("one_device", "round_robin", "hierarchical", "rechd", "collective", "nccl", "xring", "pscpu", "psgpu")
_PACKINGS = ("packs", "concat", "small", "buckets")
_LIKELY_CANDIDATES = (
    "one_device,round_robin,hierarchical,pscpu,one_device+small,round_robin+small,hierarchical+buckets,psgpu+small,"
    "xring+small,nccl,nccl+packs"
)

_MODEL = "resnet50"
_DTYPES = ("float32", "float16", "bfloat16", "float64")
_Shape: TypeAlias = tuple[int, ...]
_RESNET50_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""The width of the 3 x 3 convolutions, and the number of blocks."""


@dataclass(frozen=True)
class ScriptGradients:
    """The gradients of one tower.

    Attributes:
        shapes: the shapes of the dense ones.
        dtypes: the names of their dtypes.
        num_sparse: the number of sparse ones.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    num_sparse: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = "Measure the ways to reduce a model's gradients over the towers, each in a process of its own."
    parser.add_argument(
        "--towers",
        type=_towers,
        default=8,
        help="how many towers, or the numbers of their GPUs, such as 0,2,5 (default: %(default)s)",
    )
    gradients = parser.add_mutually_exclusive_group()
    gradients.add_argument("--model", choices=sorted(MODELS), help=f"whose gradients (default: {_MODEL})")
    gradients.add_argument("--shapes", type=parse_shapes, help="shapes instead of a model, such as 784x10,10")
    gradients.add_argument(
        "--script",
        help="a training script and its arguments, such as 'train.py --batch 64': it is run until its first tower is "
        "built, and the gradients are those of its model",
    )
    parser.add_argument("--dtype", choices=_DTYPES, help="of the gradients (default: float32, or the script's)")
    parser.add_argument(
        "--reducer",
        action="append",
        default=[],
        metavar="MODULE:CLASS",
        help="a reducer of your own, beside tpack's in the table; may be given several times",
    )
    parser.add_argument("--steps", type=int, default=5, help="steps a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts (default: %(default)s)")
    parser.add_argument(
        "--timeout", type=float, default=120.0, help="seconds for each candidate (default: %(default)s)"
    )
    parser.add_argument(
        "--candidates",
        type=lambda text: tuple(name.strip() for name in text.split(",")),
        default=_LIKELY_CANDIDATES,
        help=f"algorithms ({', '.join(_ALGORITHMS)}), each alone or with + and a packing ({', '.join(_PACKINGS)}); "
        "default: %(default)s",
    )
    parser.add_argument("--again", action="store_true", help="measure, even if the answer is known from before")
    parser.set_defaults(run=run, loads_tensorflow=True)


def run(options: argparse.Namespace) -> str:
    """Measure the reducers that the options select; return the table and the choice.

    Raises:
        ConfigError: A number is out of range, or a candidate is unknown.
        DeviceError: A GPU does not exist on this machine, which has others.
    """
    by_measurement = importlib.import_module("tpack.reduction.autotune.autotune")
    measure = importlib.import_module("tpack.reduction.autotune.measure")
    devices = importlib.import_module("tpack.tower.devices").resolve_devices(options.towers)
    if len(devices) < 2:
        raise ConfigError(f"--towers got {len(devices)}: expected at least two; one tower needs no reduction")
    # The user's reducers are found from the directory where the command runs, before anything is measured.
    if options.reducer and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for name in options.reducer:
        importlib.import_module("tpack.reduction.autotune.candidates").load_reducer(name.partition("+")[0])
    shapes, dtypes, note = _gradients(options)
    candidates = (*options.candidates, *options.reducer)
    measuring = measure.MeasuringOptions(candidates, options.steps, options.rounds, options.timeout)
    # A user's reducer may have changed since it was measured.
    cache = by_measurement.ChoiceCache(is_write_only=options.again or bool(options.reducer))
    chosen = by_measurement.choose_by_measurement(devices, shapes, dtypes, options=measuring, cache=cache)
    table = measure.format_table(chosen.rows)
    return f"{note}{table}\n\nThe choice is {chosen.reducer.name}: {chosen.reason}.\n"


def _gradients(options: argparse.Namespace) -> tuple[Sequence[_Shape], str | Sequence[str], str]:
    """Return the shapes and dtypes of the gradients, and a note about them."""
    dtype = options.dtype or "float32"
    if options.script is None:
        return options.shapes or MODELS[options.model or _MODEL](), dtype, ""
    found = gradients_of_script(options.script, timeout_secs=options.timeout)
    dtypes = [options.dtype or own for own in found.dtypes]
    sparse = f", and {found.num_sparse} sparse ones, which are not measured" if found.num_sparse else ""
    return found.shapes, dtypes, f"The gradients are {len(found.shapes)} dense ones of {options.script}{sparse}.\n\n"


def _towers(text: str) -> int | list[int]:
    """Read ``8`` or ``0,2,5``."""
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected a number such as 8, or numbers such as 0,2,5, got {text!r}"
        ) from error
    return numbers if "," in text else numbers[0]


def parse_shapes(text: str) -> tuple[_Shape, ...]:
    """Read ``784x10,10``."""
    try:
        shapes = tuple(tuple(int(size) for size in shape.split("x")) for shape in text.split(","))
    except ValueError:
        shapes = ((-1,),)
    if any(size < 0 for shape in shapes for size in shape):
        raise argparse.ArgumentTypeError(f"expected shapes such as 784x10,10, got {text!r}")
    return shapes


def _resnet50_shapes() -> tuple[_Shape, ...]:
    """Return the shapes of the 161 trainable variables of ResNet-50 in the order of the model: 25.6 M elements.

    Source:
        He et al., "Deep Residual Learning for Image Recognition", https://arxiv.org/abs/1512.03385
    """
    shapes: list[_Shape] = [*_convolution(7, 3, 64)]
    channels = 64
    for width, blocks in _RESNET50_STAGES:
        for _ in range(blocks):
            shortcut = [(1, channels, 4 * width)] if channels != 4 * width else []
            for sizes in (*shortcut, (1, channels, width), (3, width, width), (1, width, 4 * width)):
                shapes += _convolution(*sizes)
            channels = 4 * width
    return (*shapes, (channels, 1000), (1000,))


def _convolution(size: int, inputs: int, outputs: int) -> tuple[_Shape, ...]:
    """Return the shapes of a convolution's weights, and of scale and offset of its batch normalisation."""
    return (size, size, inputs, outputs), (outputs,), (outputs,)


MODELS = {"resnet50": _resnet50_shapes}
"""The models with names on the command line."""


def gradients_of_script(command: str, *, timeout_secs: float) -> ScriptGradients:
    """Return the gradients of a script that trains with a trainer of tpack.

    Args:
        command: the script and its arguments, as in a shell.
        timeout_secs: the time limit for building its first tower.

    Raises:
        ConfigError: The script does not exist, fails, takes too long or ends before it has built a tower, or the shape
            of a gradient is not fully known.
    """
    words = shlex.split(command)
    if not words or not os.path.isfile(words[0]):
        raise ConfigError(f"--script got {command!r}: expected a Python script and its arguments")
    with tempfile.TemporaryDirectory() as directory:
        worker = python_command(__name__, "run_script", {"words": words, "log_dir": os.path.join(directory, "log")})
        try:
            found = python_child(worker, timeout_secs=timeout_secs)
        except ChildError as error:
            reason = f"{error} (--timeout {timeout_secs:g})"
            raise ConfigError(
                f"{command!r} ended before a trainer with one cost had built a tower: {reason}"
            ) from error
    shapes = tuple(tuple(shape) for shape in found["shapes"])
    if any(None in shape for shape in shapes):
        raise ConfigError(f"{command!r} has gradients of the shapes {shapes}: expected fully known ones")
    return ScriptGradients(shapes, tuple(found["dtypes"]), found["num_sparse"])


class _Found(BaseException):
    """Raised to end the script when the gradients are known."""


def run_script(words: Sequence[str], log_dir: str) -> None:
    """Run a script with its arguments until its first tower is built, and print the gradients as JSON.

    It has a process of its own, and ``log_dir`` replaces the script's log directory.
    """
    single_cost = importlib.import_module("tpack.train.single_cost")
    logger = importlib.import_module("tpack.utils.logger")
    make_grad_fn, set_logger_dir, found = single_cost.make_grad_fn, logger.set_logger_dir, []

    def make(*args: Any, **kwargs: Any) -> Callable[[], Any]:
        grad_fn = make_grad_fn(*args, **kwargs)

        def report() -> None:
            grads = [grad for grad, _ in grad_fn()]
            dense = [grad for grad in grads if not hasattr(grad, "indices")]
            shapes = tuple(tuple(grad.shape.as_list()) for grad in dense)
            found.append(ScriptGradients(shapes, tuple(grad.dtype.name for grad in dense), len(grads) - len(dense)))
            raise _Found

        return report

    # Nothing else runs in this process, and only functions of tpack are replaced.
    vars(single_cost).update(make_grad_fn=make)
    vars(logger).update(set_logger_dir=lambda *_, **__: set_logger_dir(log_dir, "k"))
    sys.argv = list(words)
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    try:
        runpy.run_path(words[0], run_name="__main__")
    except BaseException:
        if not found:
            raise
    if found:
        sys.stdout.write(f"\n{json.dumps(asdict(found[0]))}\n")
