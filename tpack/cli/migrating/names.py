"""What older scripts import and call, and where it is today: tables that are read without importing what they name."""

import importlib.util
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from tpack.legacy.table import MODULES, knows

_TPACK = Path(__file__).parents[2]

NUMPY = {
    **{name: name for name in ("bool", "int", "float", "complex", "object", "str")},
    "long": "int",
    "unicode": "str",
}
"""Names of numpy that were those of Python itself."""

NUMPY_RENAMED = {
    "float_": "float64",
    "complex_": "complex128",
    "cfloat": "complex128",
    "string_": "bytes_",
    "unicode_": "str_",
    "Inf": "inf",
    "Infinity": "inf",
    "infty": "inf",
    "PINF": "inf",
    "NaN": "nan",
    "NAN": "nan",
    "product": "prod",
    "cumproduct": "cumprod",
    "sometrue": "any",
    "alltrue": "all",
    "row_stack": "vstack",
    "in1d": "isin",
    "round_": "round",
    "mat": "asmatrix",
}
"""Names of numpy that have another name there, and had it already."""

GONE = {
    "numpy.sctypes": "name the types, such as numpy.float32",
    "numpy.NINF": "use -numpy.inf",
    "numpy.asscalar": "use the method item()",
    "numpy.asfarray": "use numpy.asarray with a dtype",
    "numpy.cast": "use numpy.asarray with a dtype",
    "numpy.find_common_type": "use numpy.result_type",
    "numpy.issubclass_": "use issubclass",
    "numpy.msort": "use numpy.sort(x, axis=0)",
    "numpy.rank": "use numpy.ndim",
    "numpy.trapz": "use numpy.trapezoid, which numpy 1 does not have",
    "inspect.getargspec": "use inspect.getfullargspec, which returns more",
    "fractions.gcd": "use math.gcd",
    "platform.linux_distribution": "use platform.freedesktop_os_release",
    "scipy.misc.imread": "use imageio.imread or cv2.imread",
    "scipy.misc.imresize": "use cv2.resize",
    "scipy.misc.imsave": "use imageio.imwrite or cv2.imwrite",
    "tensorflow.function": "this is code of TensorFlow 2, and builds no graph of tpack's",
    "tensorflow.examples": "use tpack.tf1.input_data for the digits, or tpack.dataflow.dataset",
}
"""Whole names that are nowhere, and what to use."""

INPUT_DATA = "tpack.tf1.input_data"
WAS_INPUT_DATA = (
    "tensorflow.examples.tutorials.mnist.input_data",
    "tensorflow.contrib.learn.python.learn.datasets.mnist",
)
"""The module that read the digits of the tutorials, and where it is today."""

_ABSTRACT = (
    "Awaitable ByteString Callable Collection Container Coroutine Generator Hashable ItemsView Iterable Iterator "
    "KeysView Mapping MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView"
)
ABSTRACT = frozenset(_ABSTRACT.split())
"""Names of ``collections`` that are in ``collections.abc`` alone."""

ONLY_IN_TF1 = ("contrib", "estimator", "layers", "nn.rnn_cell", "leave_default_graph")
"""Names of TensorFlow 1 that `tpack.tf1` has and TensorFlow has not."""

_BUILDS_NOTHING = (
    "app compat flags gfile logging python_io test errors sysconfig version VERSION __version__ keras dtypes io.gfile "
    "io.TFRecordWriter ConfigProto GPUOptions GraphDef GraphOptions OptimizerOptions RunOptions RunMetadata Summary "
    "GraphKeys Graph AUTO_REUSE DType Dimension Operation Tensor TensorShape TensorSpec SparseTensorValue NodeDef "
    "MetaGraphDef reset_default_graph get_default_graph get_default_session is_gpu_available "
    "disable_v2_behavior disable_v2_tensorshape disable_eager_execution enable_eager_execution load_op_library "
    "train.Example train.Feature train.Features train.Int64List train.BytesList train.FloatList "
    "train.latest_checkpoint train.NewCheckpointReader train.load_variable train.list_variables train.ClusterSpec "
    "float16 float32 float64 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool string complex64 "
    "complex128 examples input_data"
)
_SESSIONS = ("Session", "InteractiveSession", "train.MonitoredTrainingSession", "train.Supervisor")


def is_in(name: str, namespaces: Iterable[str]) -> bool:
    """Tell whether a dotted name is one of some, or below one."""
    return any(name == other or name.startswith(f"{other}.") for other in namespaces)


def home_of_tensorflow(used: set[str], used_outside: set[str], *, has_trainer: bool) -> str:
    """Return the module that a file's ``tf`` is: TensorFlow's own where that is enough.

    It is where the file uses no name that only `tpack.tf1` has, and needs no default graph: because nothing that it
    uses builds, or because a trainer enters the graph.

    Args:
        used: the names after ``tf.`` in the file.
        used_outside: those of them that are used outside of functions.
        has_trainer: whether the file imports tensorpack or tpack.
    """
    builds = {name for name in (used_outside if has_trainer else used) if not is_in(name, _BUILDS_NOTHING.split())}
    if builds or any(is_in(name, ONLY_IN_TF1 + _SESSIONS) for name in used):
        return "tpack.tf1"
    return "tensorflow.compat.v1"


def has_module(module: str) -> bool:
    """Tell whether tpack has a module that tensorpack had, by its path after ``tensorpack.``."""
    path = _TPACK.joinpath(*module.split(".")) if module else _TPACK
    return path.with_suffix(".py").is_file() or path.joinpath("__init__.py").is_file() or module in MODULES


def has_contrib(module: str) -> bool:
    """Tell whether `tpack.tf1` has a package, by its path after ``tf.``, such as ``contrib.slim``."""
    path = _TPACK.joinpath("tf1", *module.split("."))
    return path.with_suffix(".py").is_file() or path.joinpath("__init__.py").is_file()


def module_of(module: str, name: str) -> str:
    """Return the module of tpack that has what a script imports from one of tensorpack's.

    Names that only older scripts use stay with the older module, which is there for them.

    Args:
        module: the path after ``tensorpack.``; empty for tensorpack itself.
        name: what is imported from it.
    """
    today, names = MODULES.get(module, ("", ""))
    if name in names.split() and not knows(name) and not today.startswith("legacy"):
        module = today
    return f"tpack.{module}" if module else "tpack"


def reason_for_missing(name: str) -> str | None:
    """Return why a name of TensorFlow 1 is not there and what to use; None if it is there.

    Args:
        name: the name after ``tf.``.
    """
    reason = _table()(name)
    if reason is None or has_contrib(name):
        return None
    parts = name.split(".")
    # The table says of a package that is there what is said of those of its names that are not.
    for size in range(len(parts) - 1, 1, -1):
        package = ".".join(parts[:size])
        if has_contrib(package):
            return None if re.search(rf"\b{parts[size]}\b", _source(package)) else reason
    return reason


@cache
def _table() -> Callable[[str], str | None]:
    """Return what looks a name up; it is run apart from its package, which would load TensorFlow."""
    spec = importlib.util.spec_from_file_location("_missing_names", _TPACK / "tf1" / "removed_names.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot read {_TPACK / 'tf1' / 'missing.py'}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    reason: Callable[[str], str | None] = module.reason_for
    return reason


@cache
def _source(package: str) -> str:
    path = _TPACK.joinpath("tf1", *package.split("."))
    file = path.with_suffix(".py")
    return (file if file.is_file() else path / "__init__.py").read_text(encoding="utf-8")
