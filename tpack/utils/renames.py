"""Hooks for tensorpack's names of 2017 to 2019, which the core supports without importing them.

What these names stand for is in `tpack.legacy`, an annex. It is loaded, by the names of its modules, when a script
first uses one of them: an unknown name, an unknown argument, a method under an older name, a config given to a trainer.
"""

import functools
import importlib
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

Maker = TypeVar("Maker", bound=Callable[..., Any])
_ANNEX = "tpack.legacy"

# Modules in which names of TensorFlow 1 are looked up, and what scripts write before these names.
_KERAS_1 = "keras._tf_keras.keras.__internal__.legacy"
_TENSORFLOW = {
    "tensorflow": "",
    "tensorflow.compat.v1": "",
    f"{_KERAS_1}.layers": "layers.",
    f"{_KERAS_1}.rnn_cell": "nn.rnn_cell.",
}
_LOST_MODULES = ("contrib", "estimator", "layers")


class Renamed(NamedTuple):
    """A method that had another name.

    Attributes:
        older: that name.
        today: the name of today.
        advice: the log's replacement for a call by the older name; None if only subclasses use that name.
    """

    older: str
    today: str
    advice: str | None = None


FLOW_METHODS = (Renamed("get_data", "__iter__", "iter(), or a for loop"), Renamed("size", "__len__", "len()"))
MODEL_METHODS = (
    Renamed("_get_inputs", "inputs"),
    Renamed("_build_graph", "build_graph"),
    Renamed("_get_optimizer", "optimizer"),
    Renamed("get_inputs_desc", "get_input_signature", "get_input_signature()"),
)


def say(older: str, today: str) -> None:
    """Log the present spelling of an older name, once for each name."""
    _annex("table").say(older, today)


def find_name(name: str) -> tuple[bool, Any]:
    """Return whether there is such an older name, and its value."""
    table = _annex("table")
    return (True, table.load(name)) if table.knows(name) else (False, None)


def advice_for_lost_name(error: BaseException, script: str) -> str | None:
    """Return what to write where TensorFlow 2 lacks a name of TensorFlow 1; None for other errors.

    Args:
        error: the error.
        script: the file that asked for the name.
    """
    if not isinstance(error, AttributeError):
        return None
    module: Any = error.obj
    owner, name = getattr(module, "__name__", None), error.name or ""
    if not isinstance(owner, str) or owner not in _TENSORFLOW:
        return None
    older = module.compat.v1 if owner == "tensorflow" else None
    if not _TENSORFLOW[owner] and name not in _LOST_MODULES and not hasattr(older, name):
        # Neither version has it: a misspelt name.
        return None
    return (
        f"{script}: TensorFlow 2 has no tf.{_TENSORFLOW[owner]}{name}, and TensorFlow is left as the script imports "
        f"it: write 'import tpack.tf1 as tf', or let 'tpack migrate {script}' do it"
    )


def on_unknown_name(module: str) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a module, by its name, that scripts import older names from."""

    def find(name: str) -> Any:
        """Look up a name among the older ones, and in the package."""
        # Names with underscores are requested by inspect, pickle and others; none of them is an older name.
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return _annex("table").find_in(module, name)

    return find


def on_unknown_argument(signature: Any, owner: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the named arguments of a call that cannot be made as it is, under their present names."""
    translated: dict[str, Any] = _annex("arguments").with_todays_arguments(signature, owner, args, kwargs)
    return translated


def on_subclass(cls: type, methods: Sequence[Renamed]) -> None:
    """Make the methods of a new class callable by both of their names.

    Of an older name and the present one, the one that the class defines, or the first of its bases that has either, is
    added under the other name too, in the same class; so overriding and ``super()`` work in a mixture of both. Only for
    a method under an older name is `tpack.legacy` loaded.

    Args:
        cls: the class.
        methods: the renamed methods of its base.
    """
    for method in methods:
        older, today, _ = method
        holder = next((base for base in cls.__mro__ if is_written(base, today) or is_written(base, older)), None)
        if holder is None or (today in vars(holder) and older in vars(holder)):
            continue
        if today in vars(holder):
            _add_older(cls, method, vars(holder)[today])
        else:
            _annex("methods").take_older_method(cls, method, vars(holder)[older])


def is_written(cls: type, name: str) -> bool:
    """Tell whether a class itself defines a method, other than those that `add_method` added."""
    return name in vars(cls) and not hasattr(vars(cls)[name], "made_of_older")


def _add_older(cls: type, method: Renamed, function: Callable[[Any], Any]) -> None:
    """Add a method under its older name to a class; calls of it are logged once. Without advice nothing is added."""
    older, today, advice = method
    if advice is None:
        return

    def call(self: Any) -> Any:
        say(f"{older}()", advice)
        return function(self)

    call.__doc__ = f"Older name of `{today}`."
    add_method(cls, older, call)


def add_method(cls: type, name: str, made: Any) -> None:
    """Set a method that was made out of another one, marked as such."""
    made.__name__ = name
    made.__qualname__ = f"{cls.__qualname__}.{name}"
    made.made_of_older = True
    setattr(cls, name, made)


def takes_config(make: Maker) -> Maker:
    """Let a trainer's class, or a function that returns a trainer, be called with a ``TrainConfig``.

    Its ``train()`` without arguments then trains as the config says, on ``config.nr_tower`` towers.
    """
    target: Any = make
    if isinstance(make, type):
        target.__init__ = _taking_config(target.__init__, make.__name__, is_method=True)
        return make
    return _taking_config(target, target.__name__, is_method=False)  # type: ignore[return-value]


def _taking_config(function: Callable[..., Any], name: str, *, is_method: bool) -> Callable[..., Any]:
    """Return a function that replaces a config, its first argument, by the number of towers in it."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        own, rest = args[:is_method], args[is_method:]
        config = rest[0] if rest else kwargs.pop("config", None)
        # A ``TrainConfig`` is known by its name, since its module is above this one.
        if not any(cls.__name__ == "TrainConfig" for cls in type(config).__mro__):
            return function(*args, **kwargs)
        annex = _annex("trainers")
        made = annex.make_with_config(functools.partial(function, *own), name, config, rest[1:], kwargs)
        annex.train_by_config(own[0] if is_method else made, config)
        return made

    return call


def set_tower_func(trainer: Any, tower_func: Any) -> None:
    """Set the tower function of a ``TowerTrainer``, of which this is the method ``set_tower_func``."""
    say("set_tower_func(f)", "tower_func = f")
    trainer.tower_func = tower_func


def with_cost_attribute(model: Any) -> Callable[..., Any]:
    """Return a model's ``build_graph``, which returns ``model.cost`` if the method sets that and returns nothing."""

    @functools.wraps(model.build_graph)
    def build_graph(*inputs: Any) -> Any:
        cost = model.build_graph(*inputs)
        if cost is None and getattr(model, "cost", None) is not None:
            say("self.cost = cost", "return cost, at the end of build_graph()")
            cost, model.cost = model.cost, None
        return cost

    return build_graph


def point_of(arguments: Sequence[Any], num_inputs: int) -> Sequence[Any]:
    """Return the data point of a call of a predictor with several inputs: its arguments, or the only one."""
    only = arguments[0] if len(arguments) == 1 < num_inputs else None
    if not isinstance(only, (list, tuple)) or len(only) != num_inputs:
        return arguments
    say("predictor(data_point)", "predictor(*data_point)")
    return only


def is_tensorpack() -> bool:
    """Tell whether ``import tensorpack`` gives tpack in this process."""
    module = sys.modules.get(f"{_ANNEX}.as_tensorpack")
    return module is not None and module.is_installed()


def install_as_tensorpack() -> None:
    """Let ``import tensorpack`` give tpack in this process."""
    _annex("as_tensorpack").install_as_tensorpack()


class _OlderModules:
    """Finds tensorpack's modules that have another name in tpack, after all others found nothing."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of an older module; None for any other."""
        package, _, path_inside = fullname.partition(".")
        if package != "tpack" or path_inside not in _annex("table").MODULES:
            return None
        # It has the methods of ``importlib.abc.Loader``, whose module takes longer to import than ``tpack``.
        return importlib.machinery.ModuleSpec(fullname, self)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Make the module, which is empty until a name is read from it."""
        module: ModuleType = _annex("table").OlderModule(spec.name.partition(".")[2])
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is."""


def _annex(module: str) -> Any:
    """Return a module of `tpack.legacy`, loaded at the first call."""
    return importlib.import_module(f"{_ANNEX}.{module}")


# Of a package imported a second time, the finder of the first is as good.
if not any(type(finder).__name__ == _OlderModules.__name__ for finder in sys.meta_path):
    sys.meta_path.append(_OlderModules())
