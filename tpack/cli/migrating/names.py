"""Tables of names in older scripts and their present places, read without importing what they name."""

import re
import runpy
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from tpack.legacy.table import MODULES, knows
from tpack.public_names import FOR_STAR, names_by_package

_TPACK = Path(__file__).parents[2]

NUMPY = {name: name for name in ("bool", "int", "float", "complex", "object", "str")} | {
    "long": "int",
    "unicode": "str",
}
"""Names of numpy that were Python's."""

_NUMPY_RENAMED = (
    "float_=float64 complex_=complex128 cfloat=complex128 string_=bytes_ unicode_=str_ Inf=inf Infinity=inf infty=inf "
    "PINF=inf NaN=nan NAN=nan product=prod cumproduct=cumprod sometrue=any alltrue=all row_stack=vstack in1d=isin "
    "round_=round mat=asmatrix"
)
NUMPY_RENAMED: dict[str, str] = dict(pair.split("=") for pair in _NUMPY_RENAMED.split())
"""Removed names of numpy, and names that all versions have."""

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
    "horovod.keras": "use tpack.keras.fit with MultiWorkerTrainerReplicated, or a graph with tpack.horovod",
    "horovod.tensorflow.keras": "use tpack.keras.fit with MultiWorkerTrainerReplicated, or a graph with tpack.horovod",
    "horovod.torch": "this is code of PyTorch, which tpack does not train",
    "inspect.getargspec": "use inspect.getfullargspec, which returns more",
    "fractions.gcd": "use math.gcd",
    "platform.linux_distribution": "use platform.freedesktop_os_release",
    "scipy.misc.bytescale": "scale with numpy",
    "scipy.misc.fromimage": "use numpy.asarray",
    "scipy.misc.imread": "use imageio.imread or cv2.imread",
    "scipy.misc.imresize": "use cv2.resize",
    "scipy.misc.imsave": "use imageio.imwrite or cv2.imwrite",
    "scipy.misc.toimage": "use PIL.Image.fromarray",
    "tensorflow.function": "this is code of TensorFlow 2, and builds no graph of tpack's",
    "tensorflow.examples": "use tpack.tf1.input_data for the digits, or tpack.dataflow.dataset",
}
"""Full names that are gone, and their replacements."""

MOVED = {
    "horovod.common.process_sets": "tpack.horovod",
    "horovod.tensorflow": "tpack.horovod",
    "horovod.tensorflow.compression": "tpack.horovod",
    "horovod.tensorflow.functions": "tpack.horovod",
    "horovod.tensorflow.mpi_ops": "tpack.horovod",
    "scipy.misc.comb": "scipy.special.comb",
    "scipy.misc.factorial": "scipy.special.factorial",
    "scipy.misc.logsumexp": "scipy.special.logsumexp",
    "scipy.sparse.linalg.eigen": "scipy.sparse.linalg",
    "scipy.sparse.linalg.eigen.arpack": "scipy.sparse.linalg",
    "sklearn.cross_validation": "sklearn.model_selection",
    "sklearn.externals.joblib": "joblib",
    "sklearn.grid_search": "sklearn.model_selection",
}
"""Modules and names of SciPy and scikit-learn, and their present places."""

_OUT_OF_CONTROL_FLOW = ("Assert", "case", "cond", "while_loop")
_FREEZE = "graph_util.convert_variables_to_constants"
OUT_OF_TENSORFLOW = {
    **{f"tensorflow.python.ops.control_flow_ops.{name}": name for name in _OUT_OF_CONTROL_FLOW},
    f"tensorflow.python.framework.{_FREEZE}": _FREEZE,
    "tensorflow.python.framework.ops.Tensor": "Tensor",
}
"""Names that modules inside TensorFlow had, and the public ones after ``tf.``."""

INPUT_DATA = "tpack.tf1.input_data"
WAS_INPUT_DATA = (
    "tensorflow.examples.tutorials.mnist.input_data",
    "tensorflow.contrib.learn.python.learn.datasets.mnist",
)
"""The module that read the digits of the tutorials, and its present place."""

_ABSTRACT = (
    "Awaitable ByteString Callable Collection Container Coroutine Generator Hashable ItemsView Iterable Iterator "
    "KeysView Mapping MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView"
)
ABSTRACT = frozenset(_ABSTRACT.split())
"""Names of ``collections`` that moved to ``collections.abc``."""

ONLY_IN_TF1 = ("contrib", "estimator", "layers", "nn.rnn_cell", "leave_default_graph")
"""Names of TensorFlow 1 that only `tpack.tf1` has."""

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
MAY_BE_ARRAY = frozenset(("numpy.digitize", "numpy.dot", "numpy.matmul", "numpy.searchsorted", "numpy.take"))
"""Functions of numpy with arrays of one element, of which numpy 2 makes no Python numbers."""

VARIABLES = ("Variable", "get_local_variable", "get_variable", "train.get_or_create_global_step")
"""Functions after ``tf.`` that return a variable."""

_DRAWS = "rand=1 randn=1 random=1 random_sample=1 choice=2 normal=3 randint=3 uniform=3"
DRAWS = {f"numpy.random.{name}": int(size) for name, size in (pair.split("=") for pair in _DRAWS.split())}
"""Functions of numpy that return an array if they get as many arguments, or ``size``."""

_SESSIONS = ("Session", "InteractiveSession", "train.MonitoredTrainingSession", "train.Supervisor")


def is_in(name: str, namespaces: Iterable[str]) -> bool:
    """Tell whether a dotted name is in or below one of some namespaces."""
    return any(name == other or name.startswith(f"{other}.") for other in namespaces)


def home_of_tensorflow(used: set[str], used_outside: set[str], *, has_trainer: bool) -> str:
    """Return the module of a file's ``tf``: TensorFlow's own where that is enough.

    It is enough if the file uses no name that only `tpack.tf1` has, defines no flags, and needs no default graph: it
    builds nothing, or a trainer enters the graph.

    Args:
        used: the names after ``tf.`` in the file.
        used_outside: those used outside of functions.
        has_trainer: whether the file imports tensorpack or tpack.
    """
    builds = {name for name in (used_outside if has_trainer else used) if not is_in(name, _BUILDS_NOTHING.split())}
    if builds or any(is_in(name, ONLY_IN_TF1 + _SESSIONS) or _defines_flags(name) for name in used):
        return "tpack.tf1"
    return "tensorflow.compat.v1"


def _defines_flags(name: str) -> bool:
    """Tell whether a name may define flags, which `tpack.tf1` lets have the names of those of absl's logging."""
    return name in ("flags", "app.flags") or name.startswith(("flags.DEFINE_", "app.flags.DEFINE_"))


def has_module(module: str) -> bool:
    """Tell whether tpack has a module of tensorpack, by its path after ``tensorpack.``."""
    path = _TPACK.joinpath(*module.split(".")) if module else _TPACK
    return path.with_suffix(".py").is_file() or path.joinpath("__init__.py").is_file() or module in MODULES


def has_name(module: str, name: str) -> bool:
    """Tell whether a module of tpack seems to have a name: its source, or its package's, has the word.

    Args:
        module: its path after ``tpack.``; empty for tpack itself.
        name: the name, or that of a module in a package.
    """
    if has_module(f"{module}.{name}".lstrip(".")) or knows(name) or name.startswith("__"):
        return True
    if not module:
        return name in FOR_STAR or any(name in names for names in names_by_package().values())
    today, names = MODULES.get(module, (module, ""))
    if name in names.split():
        return True
    sources = [_source_of(each) for each in {today, today.rpartition(".")[0]}]
    return any(re.search(rf"\b{re.escape(name)}\b", source) for source in sources)


@cache
def _source_of(module: str) -> str:
    """Return the source of a module of tpack, by its path after ``tpack.``; empty for tpack itself or none."""
    path = _TPACK.joinpath(*module.split("."))
    files = [file for file in (path.with_suffix(".py"), path / "__init__.py") if module and file.is_file()]
    return files[0].read_text(encoding="utf-8") if files else ""


def home_of_lost_name(name: str) -> str | None:
    """Return the module of a module or function that older star imports of tensorpack gave; None if it is unknown."""
    if name in ("change_gpu", "get_nr_gpu"):
        return "tpack.utils.gpu"
    return next((f"tpack.{package}" for package in ("utils", "tfutils") if has_module(f"{package}.{name}")), None)


def has_contrib(module: str) -> bool:
    """Tell whether `tpack.tf1` has a package, by its path after ``tf.``, such as ``contrib.slim``."""
    path = _TPACK.joinpath("tf1", *module.split("."))
    is_file = path.with_suffix(".py").is_file() or path.joinpath("__init__.py").is_file()
    # Some consist of a line in a table alone.
    return is_file or f'"{module}": (' in _source("name_table")


def public_contrib(module: str) -> str:
    """Return the package of ``tf.contrib`` for a module inside of it; the module itself if tpack has no such package.

    Args:
        module: a full name, such as ``tensorflow.contrib.layers.python.layers``.
    """
    found = re.match(r"tensorflow\.(contrib\.\w+)\.python\b", module)
    return f"tensorflow.{found[1]}" if found and has_contrib(found[1]) else module


def public_estimator(module: str, imported: Iterable[str]) -> str | None:
    """Return ``tpack.tf1.estimator`` for a module that TensorFlow had inside of it, if it has all imported names."""
    has_all = all(re.search(rf"\b{re.escape(name)}\b", _source("estimator")) for name in imported)
    return "tpack.tf1.estimator" if is_in(module, ["tensorflow.python.estimator"]) and has_all else None


def module_of(module: str, name: str) -> str:
    """Return the module of tpack for a name that a script imports from a module of tensorpack.

    Names that only older scripts use stay with the older module.

    Args:
        module: the path after ``tensorpack.``; empty for tensorpack itself.
        name: the imported name.
    """
    today, names = MODULES.get(module, ("", ""))
    if name in names.split() and not knows(name) and not today.startswith("legacy"):
        module = today
    return f"tpack.{module}" if module else "tpack"


def reason_for_missing(name: str) -> str | None:
    """Return the reason and the replacement for a missing name after ``tf.``; None if it exists."""
    reason = _table()(name)
    if reason is None or has_contrib(name):
        return None
    parts = name.split(".")
    # For an existing package the table has the reason for its missing names.
    for size in range(len(parts) - 1, 1, -1):
        package = ".".join(parts[:size])
        if has_contrib(package):
            return None if re.search(rf"\b{parts[size]}\b", _source(package)) else reason
    return reason


@cache
def _table() -> Callable[[str], str | None]:
    """Return the lookup function of a module that runs apart from its package, which would load TensorFlow."""
    reason: Callable[[str], str | None] = runpy.run_path(str(_TPACK / "tf1" / "removed_names.py"))["reason_for"]
    return reason


@cache
def _source(package: str) -> str:
    path = _TPACK.joinpath("tf1", *package.split("."))
    files = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return files[0].read_text(encoding="utf-8") if files else _source("name_table")
