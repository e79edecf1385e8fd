"""What numpy, scipy, Python and TensorFlow's examples took away since the programs were written.

It is put back in the process that runs such a program, and nowhere else: names of numpy and of Python 2 and 3.7,
functions of ``scipy.misc``, modules that moved. Nothing here stands in for a name that `tpack.tf1` has or refuses.
"""

import builtins
import collections
import collections.abc
import functools
import importlib
import inspect
import math
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image


class _Casts:
    """``np.cast``: a function for each type."""

    def __getitem__(self, dtype: Any) -> Callable[..., Any]:
        return functools.partial(np.asarray, dtype=dtype)


NUMPY: dict[str, Any] = {
    "int": int,
    "float": float,
    "bool": bool,
    "object": object,
    "str": str,
    "complex": complex,
    "long": int,
    "unicode": str,
    "float_": np.float64,
    "bool8": np.bool_,
    "unicode_": np.str_,
    "string_": np.bytes_,
    "Inf": np.inf,
    "NaN": np.nan,
    "infty": np.inf,
    "product": np.prod,
    "alltrue": np.all,
    "asscalar": lambda array: array.item(),
    "in1d": np.isin,
    "row_stack": np.vstack,
    "trapz": np.trapezoid,
    "cast": _Casts(),
}
MODULES = {
    "cPickle": "pickle",
    "StringIO": "io",
    "Queue": "queue",
    "ConfigParser": "configparser",
    "urllib2": "urllib.request",
    "Tkinter": "tkinter",
    "sklearn.cross_validation": "sklearn.model_selection",
    "sklearn.externals.joblib": "joblib",
    "scipy.sparse.linalg.eigen.arpack": "scipy.sparse.linalg",
}


def put_back() -> None:
    """Put everything back in this process."""
    for name, value in NUMPY.items():
        setattr(np, name, value)
    _put_back_numpy_functions()
    _put_back_python()
    for old, new in MODULES.items():
        sys.modules[old] = _Later(old, new)
    scipy: Any = importlib.import_module("scipy")
    scipy.misc = sys.modules["scipy.misc"] = _scipy_misc()


def _put_back_python() -> None:
    python2 = {"xrange": range, "unicode": str, "basestring": str, "long": int, "raw_input": input, "unichr": chr}
    for name, value in {**python2, "reduce": functools.reduce, "cmp": lambda a, b: (a > b) - (a < b)}.items():
        setattr(builtins, name, value)
    for name in ("Iterable", "Mapping", "MutableMapping", "Sequence", "Callable", "Hashable", "Set"):
        setattr(collections, name, getattr(collections.abc, name))
    for module, name, value in (
        (time, "clock", time.process_time),
        (inspect, "getargspec", lambda function: inspect.getfullargspec(function)[:4]),
        (importlib.import_module("itertools"), "izip", zip),
        (importlib.import_module("itertools"), "imap", map),
        (importlib.import_module("fractions"), "gcd", math.gcd),
        (importlib.import_module("string"), "maketrans", str.maketrans),
    ):
        setattr(module, name, value)


def _put_back_numpy_functions() -> None:
    load, fromstring, array, reshape = np.load, np.fromstring, np.array, np.reshape

    def reshape_to_new_shape(a: Any, *args: Any, newshape: Any = None, **kwargs: Any) -> Any:
        return reshape(a, *args, **kwargs) if newshape is None else reshape(a, newshape, *args, **kwargs)

    def load_with_pickle(*args: Any, **kwargs: Any) -> Any:
        return load(*args, **{"allow_pickle": True, **kwargs})

    def from_text_or_bytes(data: Any, dtype: Any = float, count: int = -1, sep: str = "", **kwargs: Any) -> Any:
        if sep:
            return fromstring(data, dtype, count, sep=sep, **kwargs)
        return np.frombuffer(data.encode("latin-1") if isinstance(data, str) else data, dtype, count).copy()

    def array_of_anything(*args: Any, **kwargs: Any) -> Any:
        try:
            return array(*args, **kwargs)
        except ValueError as error:
            # Rows of unequal lengths were an array of objects.
            if "inhomogeneous" not in str(error):
                raise
            return array(*args, **{**kwargs, "dtype": object})

    numpy: Any = np
    numpy.load, numpy.fromstring, numpy.array = load_with_pickle, from_text_or_bytes, array_of_anything
    numpy.reshape = reshape_to_new_shape


class _Later(types.ModuleType):
    """A module under its old name, imported when something of it is looked up."""

    def __init__(self, name: str, target: str) -> None:
        super().__init__(name)
        self.__dict__["_target"] = target

    def __getattr__(self, name: str) -> Any:
        # The import system asks for these of any module in the way.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__dict__["_target"]), name)


def _module(name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    return module


def _scipy_misc() -> types.ModuleType:
    def imread(path: Any, flatten: bool = False, mode: str | None = None) -> np.ndarray:
        image = Image.open(path)
        return np.asarray(image.convert("F" if flatten else mode or image.mode))

    def imresize(image: np.ndarray, size: Any, interp: str = "bilinear", mode: str | None = None) -> np.ndarray:
        height, width = image.shape[:2]
        scale = size / 100 if isinstance(size, int) else size
        shape = tuple(size[:2]) if isinstance(size, tuple | list) else (int(height * scale), int(width * scale))
        resampling = Image.Resampling.NEAREST if interp == "nearest" else Image.Resampling.BILINEAR
        return np.asarray(Image.fromarray(_to_bytes(image), mode).resize(shape[::-1], resampling))

    def imsave(path: Any, image: np.ndarray, format: str | None = None) -> None:
        Image.fromarray(_to_bytes(np.squeeze(image))).save(path, format)

    return _module("scipy.misc", imread=imread, imresize=imresize, imsave=imsave, toimage=lambda a, **_: _image(a))


def _image(array: np.ndarray) -> Image.Image:
    return Image.fromarray(_to_bytes(np.squeeze(array)))


def _to_bytes(image: np.ndarray) -> np.ndarray:
    """Scale floating point numbers to 0..255, as ``scipy.misc`` did."""
    if image.dtype == np.uint8:
        return image
    low, high = float(image.min()), float(image.max())
    return ((image - low) * (255.0 / ((high - low) or 1.0)) + 0.5).astype(np.uint8)


class _Digits:
    """Made-up digits with the interface of the tutorials' data set: each class is a bright spot somewhere else."""

    def __init__(self, num: int, *, one_hot: bool, reshape: bool) -> None:
        rng = np.random.default_rng(0)
        classes = rng.integers(0, 10, num)
        images = rng.uniform(0, 0.3, (num, 28, 28, 1)).astype(np.float32)
        for image, label in zip(images, classes, strict=True):
            image[2 * label : 2 * label + 6, 8:20] += 0.7
        self.images = images.reshape(num, 784) if reshape else images
        self.labels = np.eye(10, dtype=np.float64)[classes] if one_hot else classes.astype(np.uint8)
        self.num_examples = num
        self.epochs_completed = 0
        self._at = 0

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        rows = (self._at + np.arange(batch_size)) % self.num_examples
        self.epochs_completed += (self._at + batch_size) // self.num_examples
        self._at = (self._at + batch_size) % self.num_examples
        return self.images[rows], self.labels[rows]


def read_data_sets(
    train_dir: Any = "", fake_data: bool = False, one_hot: bool = False, *args: Any, **kwargs: Any
) -> Any:
    """Return made-up digits as the tutorials' ``input_data.read_data_sets`` returned those of MNIST."""
    reshape = kwargs.get("reshape", True)
    make: Callable[[int], _Digits] = lambda num: _Digits(num, one_hot=one_hot, reshape=reshape)  # noqa: E731
    return types.SimpleNamespace(train=make(1000), validation=make(100), test=make(200))
