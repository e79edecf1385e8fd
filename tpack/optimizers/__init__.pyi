"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.optimizers.guards import OptimizerMonitor as OptimizerMonitor
from tpack.optimizers.guards import SpikeGuard as SpikeGuard
from tpack.optimizers.hyper import BIASES_AND_NORMS as BIASES_AND_NORMS
from tpack.optimizers.lookahead import Lookahead as Lookahead
from tpack.optimizers.matrices import Adafactor as Adafactor
from tpack.optimizers.matrices import Muon as Muon
from tpack.optimizers.one_bit_adam import OneBitAdam as OneBitAdam
from tpack.optimizers.rerouting import SAM as SAM
from tpack.optimizers.rerouting import Recompute as Recompute
from tpack.optimizers.unfreezing import Unfreeze as Unfreeze
from tpack.optimizers.weight_decay import LAMB as LAMB
from tpack.optimizers.weight_decay import LARS as LARS
from tpack.optimizers.weight_decay import AdamW as AdamW
from tpack.optimizers.weight_decay import Lion as Lion
