"""The errors that tpack raises, one tree, so that a caller can catch as much or as little as wanted.

    TpackError
      ConfigError            an argument or a combination of arguments that cannot work   (also a ValueError)
        WrongTypeError       an argument of another type than the one wanted              (also a TypeError)
      DeviceError            a device that the machine or the session does not have
      TowerError             no tower where one is needed, or one that is misused
        TowerMismatchError   towers that should be alike and are not
      StrategyError          a distribution strategy that is used where it cannot be          (also a RuntimeError)
      ReductionError         a Reducer that cannot serve what it was given
      GraphBuildError        a cost, gradient or optimizer that no train op can be built from
      InputError             data that does not reach the step
        DataPointError       a data point that does not fit the input signature
        DataExhaustedError   data that ended before training did
        DataWorkerError      a thread or process of a dataflow that failed, died or hangs  (also a WorkerError)
      CheckpointError        a checkpoint that is missing, damaged or of other shapes
      CallbackError          a callback that is misused
      StepTimeoutError       a step that did not end in the time that it was given
      NumericsError          NaN or infinity where numbers were wanted
      WorkerError            a child process that failed or died
      DependencyError        an optional package that is not installed                    (also an ImportError)

Each message says what came and what was wanted. An error that happened elsewhere (in a thread, a process, TensorFlow)
is chained with ``raise ... from ...``, so that its own traceback is printed too.
"""


class StopTraining(Exception):
    """Not an error: raised by a callback, or by a user's own ``run_step``, to end training early and well.

    It is no `TpackError`, so that code which handles those does not swallow it.
    """


class TpackError(Exception):
    """Any error that tpack raises on purpose."""


class ConfigError(TpackError, ValueError):
    """An argument, or a combination of arguments, cannot work."""


class WrongTypeError(ConfigError, TypeError):
    """An argument is of another type than the one that is wanted."""


class DeviceError(TpackError):
    """A device was asked for that the machine or the session does not have."""


class TowerError(TpackError):
    """No tower is current where one is needed, or a tower is misused."""


class TowerMismatchError(TowerError):
    """Towers that should be alike differ in variables, gradients or outputs."""


class StrategyError(TpackError, RuntimeError):
    """A distribution strategy, or what belongs to one, is used in a place where it cannot be."""


class ReductionError(TpackError):
    """A reducer cannot serve this number of towers, this dtype or this shape."""


class GraphBuildError(TpackError):
    """No train op can be built from this cost, these gradients or this optimizer."""


class InputError(TpackError):
    """Data did not reach the step."""


class DataPointError(InputError):
    """A data point does not fit the input signature."""


class DataExhaustedError(InputError):
    """The data ended before training did."""


class CheckpointError(TpackError):
    """A checkpoint is missing, damaged, or holds other shapes than the graph."""


class CallbackError(TpackError):
    """A callback is misused."""


class StepTimeoutError(TpackError):
    """A step did not end in the time that it was given."""


class NumericsError(TpackError):
    """NaN or infinity appeared where finite numbers were wanted."""


class WorkerError(TpackError):
    """A child process failed, or died."""


class DataWorkerError(InputError, WorkerError):
    """A worker of a dataflow, a process or a thread, raised, died, was killed, or said nothing for too long."""


class DependencyError(TpackError, ImportError):
    """An optional package is needed and not installed."""
