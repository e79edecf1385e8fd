"""What workers must have in common, compared before the first step, so that a difference is an error that tells it.

Workers whose graphs differ do not fail: they wait for each other, or add what does not belong together.
"""

import hashlib
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ClusterError
from tpack.types import Peers
from tpack.utils.argument_types import check_arguments
from tpack.version import __version__

_MOST_SHOWN = 5
_ABSENT = "nothing"


@check_arguments
def check_agreement(peers: Peers, topic: str, facts: Mapping[str, Any]) -> None:
    """Compare facts over all workers, all of which call this.

    Args:
        peers: the workers.
        topic: what the facts are about; the same in all.
        facts: what each of them has, by name, in what can be sent. The order does not matter.

    Raises:
        ClusterError: Two workers have different ones. Every worker raises it, and lists the differences.
    """
    gathered = peers.gather(topic, {name: shown_fact(value) for name, value in facts.items()})
    names = list(dict.fromkeys(name for each in gathered for name in each))
    differing = [name for name in names if len({each.get(name, _ABSENT) for each in gathered}) > 1]
    if not differing:
        return
    lines = [f"{name}: {_by_worker([each.get(name, _ABSENT) for each in gathered])}" for name in differing]
    more = len(lines) - _MOST_SHOWN
    told = "; ".join(lines[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    raise ClusterError(f"the workers do not agree about {topic}: {told}. Start all of them with the same program")


def shown_fact(value: Any) -> str:
    """Return a fact as text by which it can be compared."""
    return value if isinstance(value, str) else repr(value)


def _by_worker(values: Sequence[str]) -> str:
    """Say which workers have which value."""
    ranks: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        ranks.setdefault(value, []).append(rank)
    return ", ".join(
        f"{value} on worker{'s' if len(who) > 1 else ''} {', '.join(map(str, who))}" for value, who in ranks.items()
    )


def facts_of_program() -> dict[str, str]:
    """Return what tells one program from another: versions, and the script."""
    facts = {"tpack": __version__, "TensorFlow": tf.__version__, "Python": platform.python_version()}
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script is not None and Path(script).is_file():
        facts["the script"] = f"{Path(script).name} {hashlib.sha256(Path(script).read_bytes()).hexdigest()[:12]}"
    return facts


def facts_of_variables(variables: Sequence[tf.Variable]) -> dict[str, str]:
    """Return the dtype and shape of variables, by their names."""
    trainable = {id(variable) for variable in tf.trainable_variables()}
    return {
        f"variable {variable.op.name}": f"{variable.dtype.base_dtype.name}{variable.shape}"
        f"{' trained' if id(variable) in trainable else ''}"
        for variable in variables
    }
