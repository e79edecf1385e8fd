"""The tree of tpack's errors.

    TpackError
      ConfigError            an argument or several together that cannot work        (also ValueError, AssertionError)
        WrongTypeError       an argument of another type than the expected one (also TypeError)
      DeviceError            a device that the machine or the session lacks          (also ValueError, RuntimeError)
      TowerError             no tower where one is needed, or a misused one          (also RuntimeError, AssertionError)
        TowerMismatchError   towers that should be alike and are not                 (also ValueError)
      StrategyError          a distribution strategy in a wrong context              (also RuntimeError, ValueError)
      ReductionError         a Reducer that does not support its arguments           (also ValueError, AssertionError)
      GraphBuildError        no train op from this cost, gradient or optimizer       (also ValueError, AssertionError)
        CompilationError     an operation that XLA cannot compile
      InputError             data that does not reach the step                       (also RuntimeError, AssertionError)
        DataPointError       a data point that does not fit the input signature      (also ValueError)
        DataExhaustedError   data that ended before training did
        DataWorkerError      a thread or process of a dataflow that failed, died or hangs (also a WorkerError)
      CheckpointError        a checkpoint that is missing, damaged or of other shapes (also ValueError, AssertionError)
      CallbackError          a callback that is misused                              (also ValueError, AssertionError)
      StepTimeoutError       a step that did not end within its timeout              (also TimeoutError)
      NumericsError          NaN or infinity where numbers are required              (also RuntimeError)
      WorkerError            a child process that failed or died                     (also RuntimeError)
      ClusterError           processes of a cluster that do not find each other      (also RuntimeError)
        PeerLostError        one of them was lost, or failed, while others train
      RemoteError            remote storage that cannot be read or written           (also OSError)
      DependencyError        an optional package that is not installed               (also ImportError)
      MissingNameError       a name of TensorFlow 1 that does not exist any more     (also AttributeError)

The built-in errors are those of TensorFlow, tf.estimator or tensorpack in the same place, for handlers written for
them; inside tpack, nothing relies on it. Each message has the value and the expectation. An error of a thread, a
process or TensorFlow is chained with ``raise ... from ...``, so that its own traceback is printed too.
"""


class StopTraining(Exception):
    """Raised by a callback, or by a user's own ``run_step``, to end training early and well.

    It is not a `TpackError`, so that code which handles those does not swallow it.

    Args:
        *reason: the reason, for the log.
        to_be_continued: whether another run resumes this one. Callbacks then save, as where a signal ends training.
    """

    def __init__(self, *reason: object, to_be_continued: bool = False) -> None:
        super().__init__(*reason)
        self.to_be_continued = to_be_continued


class Interrupted(BaseException):
    """A signal asked training to end; `tpack.train.interruption` turns it into the exit code."""


class TpackError(Exception):
    """Any error that tpack raises on purpose."""


class ConfigError(TpackError, ValueError, AssertionError):
    """An argument, or a combination of arguments, cannot work."""


class WrongTypeError(ConfigError, TypeError):
    """An argument is of another type than the expected one."""


class DeviceError(TpackError, ValueError, RuntimeError):
    """The machine or the session lacks a device."""


class TowerError(TpackError, RuntimeError, AssertionError):
    """No tower is current where one is needed, or a tower is misused."""


class TowerMismatchError(TowerError, ValueError):
    """Towers that should be alike differ in variables, gradients or outputs."""


class StrategyError(TpackError, RuntimeError, ValueError):
    """A distribution strategy, or a part of one, is used in a wrong context."""


class ReductionError(TpackError, ValueError, AssertionError):
    """A reducer does not support this number of towers, this dtype or this shape."""


class GraphBuildError(TpackError, ValueError, AssertionError):
    """No train op can be built from this cost, these gradients or this optimizer."""


class CompilationError(GraphBuildError):
    """XLA cannot compile an operation of a model."""


class InputError(TpackError, RuntimeError, AssertionError):
    """Data did not reach the step."""


class DataPointError(InputError, ValueError):
    """A data point does not fit the input signature."""


class DataExhaustedError(InputError):
    """The data ended before training did."""


class CheckpointError(TpackError, ValueError, AssertionError):
    """A checkpoint is missing, damaged, or holds other shapes than the graph."""


class CallbackError(TpackError, ValueError, AssertionError):
    """A callback is misused."""


class StepTimeoutError(TpackError, TimeoutError):
    """A step did not end within its timeout."""


class NumericsError(TpackError, RuntimeError):
    """NaN or infinity where finite numbers are required."""


class WorkerError(TpackError, RuntimeError):
    """A child process failed, or died."""


class DataWorkerError(InputError, WorkerError):
    """A worker of a dataflow, a process or a thread, raised, died, was killed, or timed out."""


class ClusterError(TpackError, RuntimeError):
    """Processes of a cluster did not find each other, or one of them failed."""


class PeerLostError(ClusterError):
    """A process of a cluster was lost or failed, so that this one cannot go on; ``ranks`` are the workers at fault."""

    def __init__(self, text: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(text, ranks)
        self.ranks = ranks

    def __str__(self) -> str:
        return str(self.args[0])


class RemoteError(TpackError, OSError):
    """Remote storage, such as a bucket, could not be read or written."""


class DependencyError(TpackError, ImportError):
    """An optional package is required and not installed."""


class MissingNameError(TpackError, AttributeError):
    """A name of TensorFlow 1 that does not exist any more; the message has the replacement."""
