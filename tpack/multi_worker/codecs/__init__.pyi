"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.multi_worker.codecs.base import Cast as Cast
from tpack.multi_worker.codecs.base import Codec as Codec
from tpack.multi_worker.codecs.memory import ErrorFeedback as ErrorFeedback
from tpack.multi_worker.codecs.memory import Memory as Memory
from tpack.multi_worker.codecs.memory import MomentumCorrection as MomentumCorrection
from tpack.multi_worker.codecs.memory import MomentumFeedback as MomentumFeedback
from tpack.multi_worker.codecs.names import make_exchange as make_exchange
from tpack.multi_worker.codecs.power_sgd import PowerSGD as PowerSGD
from tpack.multi_worker.codecs.quantization import Int8 as Int8
from tpack.multi_worker.codecs.quantization import OneBit as OneBit
from tpack.multi_worker.codecs.sparsification import TopK as TopK
