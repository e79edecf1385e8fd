"""Names that tensorpack keeps in one module and that scripts import from it.

Their code is in modules named after what they do.
"""

from tpack.utils.argtools import execute_only_once
from tpack.utils.env import change_env
from tpack.utils.progress import get_tqdm
from tpack.utils.rng import fix_rng_seed, get_rng
from tpack.utils.timer import humanize_time_delta

__all__ = ["change_env", "execute_only_once", "fix_rng_seed", "get_rng", "get_tqdm", "humanize_time_delta"]
