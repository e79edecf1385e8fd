"""What Slurm's ``srun`` tells a task: its number, the machines of its step, and how its GPUs are dealt out."""

import itertools
import re
from collections.abc import Iterator, Mapping

from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_text

_MOST_HOSTS = 65536
# A part in brackets, or what stands outside of them.
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
OWN_GPUS_VARIABLE = "TPACK_OWN_GPUS"
"""What a launcher of tpack sets to 1 where each process sees only GPUs of its own; Slurm has variables that say so."""

# Ways to bind GPUs (--gpu-bind) after which each task sees only its own.
_BINDS_OWN_GPUS = ("single:", "per_task:", "map:", "mask:", "map_gpu:", "mask_gpu:", "verbose,single:")


@check_arguments
def expand_hosts(nodelist: str, name: str = "nodelist") -> tuple[str, ...]:
    """Return the hosts of a list in Slurm's short form, in its order.

    Args:
        nodelist: such as ``n[001-003,7],gpu1``; several brackets in one name give all combinations.
        name: the variable that it came in, for the message.

    Raises:
        ConfigError: It is no such list, or it names more than 65,536 hosts.

    Example:
        ``expand_hosts("n[08-10],gpu1")`` gives ``("n08", "n09", "n10", "gpu1")``.
    """
    check_text("expand_hosts", name, nodelist)
    hosts: list[str] = []
    for entry in _split(nodelist, name):
        hosts += itertools.islice(_combinations(entry, nodelist, name), _MOST_HOSTS + 1)
        if len(hosts) > _MOST_HOSTS:
            raise _unreadable(name, nodelist, f"at most {_MOST_HOSTS} hosts")
    return tuple(hosts)


def has_own_gpus(environment: Mapping[str, str]) -> bool:
    """Tell whether a launcher, or Slurm, shows each task of the step only GPUs of its own.

    Args:
        environment: the variables of the process.
    """
    if environment.get(OWN_GPUS_VARIABLE) == "1":
        return True
    if environment.get("SLURM_GPU_BIND", "").startswith(_BINDS_OWN_GPUS) or "SLURM_NTASKS_PER_GPU" in environment:
        return True
    return "SLURM_GPUS_PER_TASK" in environment or "gpu" in environment.get("SLURM_TRES_PER_TASK", "")


def _split(nodelist: str, name: str) -> Iterator[str]:
    """Yield the entries between the commas that are outside of brackets."""
    depth = start = 0
    for place, letter in enumerate(nodelist):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if depth not in (0, 1):
            raise _unreadable(name, nodelist, "brackets in pairs, not nested")
        if letter == "," and not depth:
            yield nodelist[start:place]
            start = place + 1
    if depth:
        raise _unreadable(name, nodelist, "brackets in pairs, not nested")
    yield nodelist[start:]


def _combinations(entry: str, nodelist: str, name: str) -> Iterator[str]:
    """Yield the hosts of one entry; the last bracket counts fastest."""
    parts = list(_PART.finditer(entry))
    if not parts or "".join(part[0] for part in parts) != entry:
        raise _unreadable(name, nodelist, "hosts between the commas")
    choices = [(part[2],) if part[2] else tuple(_numbers(part[1], nodelist, name)) for part in parts]
    return map("".join, itertools.product(*choices))


def _numbers(text: str, nodelist: str, name: str) -> Iterator[str]:
    """Yield the numbers of a bracket, with the zeros that they begin with."""
    for item in text.split(","):
        found = _RANGE.fullmatch(item)
        low, high = (found[1], found[2] or found[1]) if found else ("1", "0")
        if int(low) > int(high) or int(high) - int(low) >= _MOST_HOSTS:
            raise _unreadable(name, nodelist, f"a number or a range in place of {item!r}")
        for number in range(int(low), int(high) + 1):
            yield f"{number:0{len(low)}d}"


def _unreadable(name: str, nodelist: str, wanted: str) -> ConfigError:
    return ConfigError(f"{name} is {nodelist[:100]!r}: expected {wanted}, as in n[001-003,7],gpu1")
