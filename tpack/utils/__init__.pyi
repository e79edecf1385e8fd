"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.utils import logger as logger
from tpack.utils.argtools import execute_only_once as execute_only_once
from tpack.utils.env import change_env as change_env
from tpack.utils.progress import get_tqdm as get_tqdm
from tpack.utils.rng import fix_rng_seed as fix_rng_seed
from tpack.utils.rng import get_rng as get_rng
from tpack.utils.timer import humanize_time_delta as humanize_time_delta
