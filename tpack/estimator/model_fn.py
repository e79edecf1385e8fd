"""Call a model_fn, and say what is wrong with one that is no model_fn.

A model_fn takes ``features`` and, as it likes, ``labels``, ``mode``, ``params`` and ``config``. It returns an
EstimatorSpec.
"""

import copy
from collections.abc import Callable

from tpack.errors import ConfigError
from tpack.estimator.inputs import call_with_accepted, required_arguments, takes_argument
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec

ModelFn = Callable[..., EstimatorSpec]

ARGUMENTS = ("features", "labels", "mode", "params", "config")


def check_model_fn(model_fn: ModelFn, params: object = None) -> None:
    """Check the arguments of a model_fn.

    Args:
        model_fn: the function.
        params: what it will be called with; None for nothing.

    Raises:
        ConfigError: It is no function, does not take the features, does not take parameters that there are, or wants
            arguments that nobody gives.
    """
    if not callable(model_fn):
        raise ConfigError(f"model_fn must be a function, got {model_fn!r}")
    if not takes_argument(model_fn, "features"):
        raise ConfigError(f"model_fn {model_fn!r} must take the argument features")
    if params is not None and not takes_argument(model_fn, "params"):
        raise ConfigError(f"there are params, and model_fn {model_fn!r} does not take them")
    unknown = [name for name in required_arguments(model_fn) if name not in ARGUMENTS]
    if unknown:
        raise ConfigError(f"model_fn {model_fn!r} wants {', '.join(unknown)}, and gets {', '.join(ARGUMENTS)}")


def call_model_fn(
    model_fn: ModelFn,
    features: object,
    labels: object,
    mode: str,
    *,
    params: object = None,
    config: RunConfig | None = None,
) -> EstimatorSpec:
    """Call a model_fn with those of its arguments that it takes.

    Args:
        model_fn: the function.
        features: the input.
        labels: what goes with it, if there are any.
        mode: one of `ModeKeys`.
        params: the function gets a copy, so that it can change it.
        config: the `RunConfig`.

    Raises:
        ConfigError: There are labels which it does not take, or it returns something else than an EstimatorSpec, or one
            of another mode.
    """
    if labels is not None and not takes_argument(model_fn, "labels"):
        raise ConfigError(f"there are labels, and model_fn {model_fn!r} does not take them")
    optional = {"labels": labels, "mode": mode, "params": copy.deepcopy(params), "config": config}
    spec = call_with_accepted(model_fn, optional, features=features)
    if not isinstance(spec, EstimatorSpec):
        raise ConfigError(f"model_fn {model_fn!r} must return an EstimatorSpec, got {spec!r}")
    if spec.mode != mode:
        raise ConfigError(f"model_fn {model_fn!r} was called with mode {mode!r} and returned a spec of {spec.mode!r}")
    return spec
