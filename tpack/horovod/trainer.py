"""tensorpack's trainers on Horovod: one tower in each process, on the exchange of `tpack.horovod`."""

from typing import Any

from tpack.errors import ConfigError
from tpack.horovod import runtime
from tpack.horovod.compression import Compression
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.multi_worker.trainer import WaitLimits
from tpack.utils.validation import check_arguments, mismatch


class _LentPeers(Peers):
    """The control channel of `tpack.horovod` in the hands of a trainer, which must not close it."""

    def __init__(self, owner: Peers) -> None:
        # All of its state is shared.
        self.__dict__ = owner.__dict__

    def close(self) -> None:
        """Leave the channel open, for the script and its next trainer."""


@check_arguments
class HorovodTrainer(MultiWorkerTrainerReplicated):
    """Train one tower in each process, with gradients all-reduced over all of them: tensorpack's best trainer.

    It calls ``hvd.init()`` if the script did not; ranks and sizes are those of ``hvd.rank()`` and ``hvd.size()``. On a
    machine with GPUs each process uses that of its local rank. `MultiWorkerTrainerReplicated` has more options.

    Args:
        average: average the gradients, or sum them.
        compression: ``hvd.Compression.fp16`` rounds gradients to float16 for the network, ``hvd.Compression.none`` or
            None does not; or what the argument ``exchange`` of `MultiWorkerTrainerReplicated` takes, such as
            ``"int8"``.

    Raises:
        ConfigError: Another compression, or as `tpack.horovod.init`.
        ClusterError: The workers do not find each other.

    Example:
        hvd.init()
        launch_train_with_config(config, HorovodTrainer())
    """

    def __init__(self, average: bool = True, compression: Any = None) -> None:
        runtime.init()
        options: dict[str, Any] = {}
        if compression is Compression.fp16:
            options["wire_dtype"] = "float16"
        elif isinstance(compression, type) and compression is not Compression.none:
            expected = "hvd.Compression.fp16, hvd.Compression.none, an Exchange or text such as 'int8'"
            raise ConfigError(mismatch(self, "compression", compression, expected))
        elif compression is not None and compression is not Compression.none:
            options["exchange"] = compression
        super().__init__(1, average, cluster=runtime.current().member, **options)

    def _connect(self, waits: WaitLimits) -> Peers:
        return _LentPeers(runtime.current().peers)


@check_arguments
class BytePSTrainer(HorovodTrainer):
    """Train as `HorovodTrainer` does; BytePS, whose servers added gradients, builds on no TensorFlow of today.

    Args:
        average: average the gradients, or sum them.

    Raises:
        ConfigError, ClusterError: As `HorovodTrainer` does.
    """

    def __init__(self, average: bool = True) -> None:
        super().__init__(average)
