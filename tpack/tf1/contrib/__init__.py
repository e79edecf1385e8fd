"""``tf.contrib``: the parts of it that training code used, each imported when it is first asked for.

Any other name raises an error that says what to use in its place, from `tpack.tf1.removed_names`.
"""

import importlib
import importlib.util
from typing import Any

from tpack.tf1.removed_names import missing_name

__all__ = [
    "all_reduce",
    "cluster_resolver",
    "crf",
    "data",
    "distribute",
    "distributions",
    "estimator",
    "feature_column",
    "framework",
    "image",
    "layers",
    "learn",
    "legacy_seq2seq",
    "lookup",
    "losses",
    "metrics",
    "opt",
    "rnn",
    "seq2seq",
    "signal",
    "slim",
    "stateless",
    "tpu",
    "training",
    "util",
]


def __getattr__(name: str) -> Any:
    # Names with underscores are asked for by inspect, pickle and others, and none of them is a module.
    if name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise missing_name(__name__, name, __all__)
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
