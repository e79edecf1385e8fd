"""Environment variables: changing one for a while, and what they say of other processes that run the same program.

A launcher starts a program several times and tells each process by the environment that it is one of several. tpack
trains on the devices of one machine; each process would train a whole model by itself, and write over the others'
files.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tpack.errors import ConfigError
from tpack.utils.argument_types import check_arguments

# Each launcher sets both, in the processes that it starts and nowhere else. Slurm's SLURM_NTASKS and SLURM_PROCID are
# also set in a batch script, which is one process whatever was asked for; SLURM_STEP_NUM_TASKS only by srun.
_RANK_AND_SIZE = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


@contextmanager
@check_arguments
def change_env(name: str, val: str | None) -> Iterator[None]:
    """Set an environment variable in a ``with`` block, and bring it back to what it was after it.

    The environment belongs to the whole process: other threads see the change too.

    Args:
        name: the variable.
        val: its value; None removes the variable.
    """
    before = os.environ.get(name)
    _set(name, val)
    try:
        yield
    finally:
        _set(name, before)


def check_only_process(owner: str) -> None:
    """Refuse to train in one of several processes that a launcher started to train together.

    What counts is ``TF_CONFIG`` with more than one task in its cluster, or with the task of an evaluator; and more than
    one in ``WORLD_SIZE`` beside ``RANK`` (torchrun), in ``SLURM_STEP_NUM_TASKS`` beside ``SLURM_PROCID`` (srun), in
    ``OMPI_COMM_WORLD_SIZE`` beside ``OMPI_COMM_WORLD_RANK`` (Open MPI) and in ``PMI_SIZE`` beside ``PMI_RANK`` (other
    MPIs). Slurm's ``SLURM_NTASKS`` does not: login shells and batch scripts have it too.

    Args:
        owner: who is to train.

    Raises:
        ConfigError: There are several, or a variable cannot be read.
    """
    counted = {"TF_CONFIG": _tasks_of_tf_config(os.environ.get("TF_CONFIG", ""))}
    for rank, size in _RANK_AND_SIZE:
        if rank in os.environ and size in os.environ:
            counted[size] = _count(size, os.environ[size])
    for name, count in counted.items():
        if count > 1:
            raise ConfigError(
                f"{owner} trains on the devices of one machine, and {name} says that this is one of {count} processes: "
                "each would train alone. Start one process; or, if each is to train a model of its own, in a directory "
                f"of its own, start them without {name} (env -u {name} python ...)"
            )


def _tasks_of_tf_config(text: str) -> int:
    """Return how many processes ``TF_CONFIG`` speaks of."""
    try:
        config = json.loads(text) if text.strip() else {}
        cluster: Mapping[str, Any] = config.get("cluster") or {}
        num_evaluators = (config.get("task") or {}).get("type") == "evaluator" and "evaluator" not in cluster
        return sum(len(addresses) for addresses in cluster.values()) + num_evaluators
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            'TF_CONFIG cannot be read: wanted JSON such as {"cluster": {"worker": ["host:port"]}, "task": {"type": '
            '"worker", "index": 0}}'
        ) from error


def _count(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise ConfigError(f"{name} is {text[:40]!r}: wanted a number of processes")
    return int(text)


def _set(name: str, val: str | None) -> None:
    if val is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = val
