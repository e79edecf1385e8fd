"""Share of a machine's cores for each worker.

Several workers on one machine, each with as many threads as there are cores, slow each other down. A scheduler may also
have assigned cores to each of them. So workers exchange the cores that they may run on.
"""

import os
from collections import Counter
from fractions import Fraction
from pathlib import Path
from socket import gethostname

from tpack.multi_worker.cluster.peers import Peers
from tpack.utils import logger
from tpack.utils.validation import check_arguments

# It is the same in all containers of a machine, which may have different names.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@check_arguments
def share_of_cores(peers: Peers) -> int:
    """Return the number of cores for this worker, if each is shared by the workers that may run on it; all call it.

    Raises:
        PeerLostError: A worker was lost, or is missing.
        ClusterError: The workers are in different calls.
    """
    here = _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.is_file() else gethostname()
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    # A bit mask is short on machines with many cores.
    of_all = peers.gather("the cores of workers", [here, f"{sum(1 << core for core in cores):x}"])
    machine, own = of_all[peers.rank]
    users = Counter(core for other, cores in of_all if other == machine for core in _numbers(cores))
    share = max(1, int(sum(Fraction(1, users[core]) for core in _numbers(own))))
    if share < len(_numbers(own)):
        logger.info(f"Other workers run on this machine, too: this one uses {share} of the {len(_numbers(own))} cores.")
    return share


def _numbers(cores: str) -> list[int]:
    bits = int(cores, 16)
    return [number for number in range(bits.bit_length()) if bits >> number & 1]
