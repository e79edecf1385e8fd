"""Versions, devices, sessions and profiles of TensorFlow, and modules of it that are not public."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow
import tensorflow.compat.v1 as tfv1
from tensorflow.core.framework.device_attributes_pb2 import DeviceAttributes
from tensorflow.core.protobuf import config_pb2

from tpack.compat import private_names
from tpack.compat.private_names import missing_names, private_module

device_lib = private_module("tensorflow.python.client.device_lib")
timeline = private_module("tensorflow.python.client.timeline")
multi_device_iterator_ops = private_module("tensorflow.python.data.ops.multi_device_iterator_ops")
context = private_module("tensorflow.python.eager.context")
lookup_ops = private_module("tensorflow.python.ops.lookup_ops")
mixed_precision_global_state = private_module("tensorflow.python.training.experimental.mixed_precision_global_state")
util_port = private_module("tensorflow.python.util._pywrap_util_port")
deprecation = private_module("tensorflow.python.util.deprecation")
nest = private_module("tensorflow.python.util.nest") or tfv1.nest
private_names.check_version()

__all__ = [
    "chrome_trace", "eager_mode", "get_tf_version_tuple", "is_mixed_precision_rewrite_enabled", "is_onednn_enabled",
    "is_tfv2", "list_local_devices", "lookup_ops", "make_callable", "make_multi_device_iterator", "nest",
    "override_session_methods", "silent_deprecations", "start_profiler", "stop_profiler", "tfv1",
]  # fmt: skip


def is_tfv2() -> bool:
    """Tell whether this is TensorFlow 2; always true on the versions that tpack supports."""
    return get_tf_version_tuple()[0] >= 2


def get_tf_version_tuple() -> tuple[int, int]:
    """Return TensorFlow's (major, minor) version as integers."""
    major, minor = tensorflow.__version__.split(".")[:2]
    return int(major), int(minor)


def is_onednn_enabled() -> bool:
    """Tell whether TensorFlow computes with oneDNN on the CPU: by its build, the processor and the environment."""
    return bool(util_port and util_port.IsMklEnabled())


def is_mixed_precision_rewrite_enabled() -> bool:
    """Tell whether TensorFlow's rewriting of graphs to 16 bits was enabled."""
    state = mixed_precision_global_state
    return bool(state and state.is_mixed_precision_graph_rewrite_enabled())


def list_local_devices(session_config: tfv1.ConfigProto | None = None) -> list[DeviceAttributes]:
    """Return a ``DeviceAttributes`` message for each device of this process, and start those that do not run yet.

    By default the memory of GPUs grows; otherwise the first session takes all of it (tensorflow/tensorflow#9374).
    """
    if session_config is None:
        session_config = tfv1.ConfigProto()
        session_config.gpu_options.allow_growth = True
    return list(device_lib.list_local_devices(session_config=session_config))


@contextmanager
def eager_mode() -> Iterator[None]:
    """Run operations eagerly in this block, also inside a graph, and where eager mode was switched off."""
    with context.eager_mode():
        yield


@contextmanager
def silent_deprecations() -> Iterator[None]:
    """Log no deprecations in this block, for calls of tpack's own that have no other form in a graph."""
    if not hasattr(deprecation or None, "_PRINT_DEPRECATION_WARNINGS"):
        yield
        return
    logs, deprecation._PRINT_DEPRECATION_WARNINGS = deprecation._PRINT_DEPRECATION_WARNINGS, False
    try:
        yield
    finally:
        deprecation._PRINT_DEPRECATION_WARNINGS = logs


def make_callable(
    session: tfv1.Session,
    *,
    feeds: Sequence[tfv1.Tensor] = (),
    fetches: Sequence[tfv1.Tensor] = (),
    targets: Sequence[tfv1.Operation] = (),
    in_caller_thread: bool = False,
    timeout_in_ms: int = 0,
) -> Callable[..., list[Any]]:
    """Make a function that runs one fixed set of fetches, for less than ``session.run`` costs.

    A feed aligned to 64 bytes is not copied: the array must stay unchanged until its consumer ran.

    Args:
        session: an open session.
        feeds: tensors that the function takes as positional numpy arrays, in this order.
        fetches: tensors whose values the function returns, in this order.
        targets: operations to run for their effect.
        in_caller_thread: run the kernels one after the other in the calling thread, without the thread pool.
        timeout_in_ms: a call that takes longer fails with a ``DeadlineExceededError``; 0 for no limit.

    Returns:
        ``function(*arrays) -> list of numpy values``. It keeps the session alive and must not outlive it.
    """
    if missing_names(private_names.CALLABLES):
        return _public_callable(session, feeds, [*fetches, *targets], len(fetches), in_caller_thread, timeout_in_ms)
    options = config_pb2.CallableOptions()
    options.feed.extend(feed.name for feed in feeds)
    options.fetch.extend(fetch.name for fetch in fetches)
    options.target.extend(target.name for target in targets)
    if in_caller_thread:
        options.run_options.inter_op_thread_pool = -1
    options.run_options.timeout_in_ms = timeout_in_ms
    return session._make_callable_from_options(options)


def _public_callable(
    session: tfv1.Session,
    feeds: Sequence[tfv1.Tensor],
    wanted: Sequence[Any],
    num_fetches: int,
    in_caller_thread: bool,
    timeout_in_ms: int,
) -> Callable[..., list[Any]]:
    """Return the function of `make_callable`, by methods of sessions that are public."""
    if not in_caller_thread and not timeout_in_ms:
        run = session.make_callable(list(wanted), list(feeds))
        return lambda *arrays: list(run(*arrays)[:num_fetches])
    options = tfv1.RunOptions(timeout_in_ms=timeout_in_ms, inter_op_thread_pool=-1 if in_caller_thread else 0)

    def run_once(*arrays: Any) -> list[Any]:
        values = session.run(list(wanted), dict(zip(feeds, arrays, strict=True)), options)
        return list(values[:num_fetches])

    return run_once


def override_session_methods(**methods: Callable[..., Any]) -> Callable[[], None]:
    """Replace methods of all sessions of this process, those of TensorFlow's own code too; return what restores them.

    Args:
        methods: by name; each is called with the replaced method, the session, and the arguments.
    """
    base: Any = tfv1.Session.__mro__[1]
    originals = {name: getattr(base, name) for name in methods}

    def overriding(method: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
        def call(session: tfv1.Session, *args: Any, **kwargs: Any) -> Any:
            return method(original, session, *args, **kwargs)

        return functools.wraps(original)(call)

    for name, method in methods.items():
        setattr(base, name, overriding(method, originals[name]))

    def restore() -> None:
        for name, original in originals.items():
            setattr(base, name, original)

    return restore


def make_multi_device_iterator(dataset: tfv1.data.Dataset, devices: Sequence[str], buffer_size: int) -> Any:
    """Make an iterator over a dataset whose ``get_next()`` returns one element for each device, with a buffer."""
    return multi_device_iterator_ops.MultiDeviceIterator(
        dataset, list(devices), max_buffer_size=buffer_size, prefetch_buffer_size=buffer_size
    )


def chrome_trace(run_metadata: tfv1.RunMetadata) -> str:
    """Return the metadata of a run with a ``trace_level`` as JSON in Chrome's trace format."""
    return str(timeline.Timeline(run_metadata.step_stats).generate_chrome_trace_format())


def start_profiler(directory: str) -> None:
    """Begin a recording of this process for TensorBoard's profiler, in ``plugins/profile`` of a directory.

    Raises:
        AlreadyExistsError: There is a recording already.
    """
    tensorflow.profiler.experimental.start(directory)


def stop_profiler() -> None:
    """End the recording of `start_profiler`, and write it; TensorFlow raises an UnavailableError if there is none."""
    tensorflow.profiler.experimental.stop()
