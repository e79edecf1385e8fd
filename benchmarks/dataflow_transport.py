"""Data points brought from worker processes: batches of images in GB/s, and tiny points in points per second.

Part of ``benchmarks/dataflow.py``. The workers make nothing: they send one data point again and again, so that only the
way is measured. The ways are tpack's, pickles through a ``multiprocessing.Queue``, pickles with their arrays as frames
of ZeroMQ, PyTorch's DataLoader and grain's loader, the last three where they are installed. For batches all are
compared with ``memcpy``: copying a batch within one process. In the rows "read" the consumer copies each batch into
memory of its own, as feeding it does; in the others it looks at one element. A row "read" is therefore two copies, that
of the way and that of the consumer, so it is also compared with the same two copies within one process.

All ways run all the time, and those that are not measured wait since nobody takes anything from them. What has piled up
meanwhile is taken before the clock starts.
"""

import importlib
import importlib.util
import multiprocessing
import pickle
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager

import numpy as np
from timing import Samples

from tpack.dataflow import DataFromGenerator, MultiProcessRunnerZMQ

BATCH_SHAPE = (64, 224, 224, 3)
TINY_SHAPE = (8,)
MEMCPY, TPACK = "memcpy", "tpack"
READ = ", read"
"""What the name of a way ends with where the consumer reads every byte."""


class Repeat:
    """The same data point for ever, as a function without arguments that makes an iterator."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype

    def __call__(self):
        point = [np.ones(self.shape, self.dtype)]
        while True:
            yield point


@contextmanager
def by_tpack(points, workers, prefetch):
    """Yield an iterator of data points over shared memory."""
    flow = MultiProcessRunnerZMQ(DataFromGenerator(points), workers, hwm=prefetch)
    flow.reset_state()
    with closing(flow), closing(iter(flow)) as found:
        yield found


def put_into_queue(queue, points):
    """Be a worker of ``by_queue``."""
    for point in points():
        queue.put(point)


@contextmanager
def by_queue(points, workers, prefetch):
    """Yield an iterator of data points that are pickled through a queue."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue(prefetch)
    with processes(context, put_into_queue, [(queue, points)] * workers):
        yield iter(queue.get, None)


def push(address, points, prefetch):
    """Be a worker of ``by_zmq``."""
    zmq = importlib.import_module("zmq")
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.set_hwm(prefetch)
        socket.connect(address)
        for point in points():
            buffers = []
            head = pickle.dumps(point, protocol=5, buffer_callback=buffers.append)
            socket.send_multipart([head, *buffers], copy=False)


def pull(socket):
    """Yield what the workers of ``by_zmq`` push."""
    while True:
        head, *buffers = socket.recv_multipart(copy=False)
        yield pickle.loads(head.buffer, buffers=[frame.buffer for frame in buffers])


@contextmanager
def by_zmq(points, workers, prefetch):
    """Yield an iterator of data points whose arrays are frames of their own, which nobody pickles."""
    zmq = importlib.import_module("zmq")
    context = multiprocessing.get_context("spawn")
    # The context is left to the end of the program: ending one waits, after a fork for ever, and DataLoader forks.
    with tempfile.TemporaryDirectory() as directory, zmq.Context.instance().socket(zmq.PULL) as socket:
        socket.set_hwm(prefetch)
        address = f"ipc://{directory}/points"
        socket.bind(address)
        with processes(context, push, [(address, points, prefetch)] * workers):
            yield pull(socket)


@contextmanager
def by_torch(points, workers, prefetch):
    """Yield an iterator of PyTorch's DataLoader, which gives tensors."""
    data = importlib.import_module("torch.utils.data")
    stream = make_torch_stream(data.IterableDataset, points)
    loader = data.DataLoader(stream, None, num_workers=workers, prefetch_factor=max(prefetch // workers, 1))
    found = iter(loader)
    try:
        yield found
    finally:
        found._shutdown_workers()


def make_torch_stream(base, points):
    """Return the points as PyTorch wants them."""

    class Stream(base):
        def __iter__(self):
            return points()

    return Stream()


class EndlessSource:
    """The points as grain wants them: an object with a length that is indexed."""

    def __init__(self, points):
        self.points = points

    def __len__(self):
        return 10**9

    def __getitem__(self, index):
        if not hasattr(self, "point"):
            self.point = next(self.points())
        return self.point


@contextmanager
def by_grain(points, workers, prefetch):
    """Yield an iterator of grain's loader with several processes."""
    grain = importlib.import_module("grain.python")
    options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=max(prefetch // workers, 1))
    threads = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
    found = iter(grain.MapDataset.source(EndlessSource(points)).to_iter_dataset(threads).mp_prefetch(options))
    try:
        yield found
    finally:
        if hasattr(found, "close"):
            found.close()


@contextmanager
def processes(context, target, arguments):
    """Run processes for the time of a ``with`` block."""
    started = [context.Process(target=target, args=each, daemon=True) for each in arguments]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.terminate()
            process.join()


WAYS = {
    TPACK: (by_tpack, None),
    "pickle, multiprocessing.Queue": (by_queue, None),
    "pickle 5, pyzmq": (by_zmq, "zmq"),
    "PyTorch DataLoader": (by_torch, "torch"),
    "grain": (by_grain, "grain"),
}


def installed_ways(chosen=None):
    """Return the ways that can be measured here, by name."""
    return {
        name: way
        for name, (way, module) in WAYS.items()
        if (chosen is None or name in chosen) and (module is None or importlib.util.find_spec(module))
    }


def take(found, count, target=None):
    """Take data points; copy each to ``target``, or look at one element of it."""
    for _ in range(count):
        (array,) = next(found)
        if target is None:
            array[(0,) * array.ndim].item()
        else:
            np.copyto(target, np.asarray(array))


def secs_of(found, count, prefetch, target=None):
    """Return how long it takes to take so many data points, after those that have piled up."""
    take(found, prefetch, target)
    start = time.perf_counter()
    take(found, count, target)
    return time.perf_counter() - start


def secs_of_memcpy(shape, count, target=None):
    """Return how long it takes to copy so many batches in this process, and to copy the copies to ``target``."""
    source, copied = np.ones(shape, np.uint8), np.zeros(shape, np.uint8)
    start = time.perf_counter()
    for _ in range(count):
        np.copyto(copied, source)
        if target is not None:
            np.copyto(target, copied)
    return time.perf_counter() - start


def measure_batches(workers, *, batches, rounds, prefetch=8, shape=BATCH_SHAPE, chosen=None):
    """Return GB/s by way for batches of images, and their ratios to memcpy."""
    samples, points = Samples(), Repeat(shape, np.uint8)
    target = np.zeros(shape, np.uint8)
    with ExitStack() as stack:
        found = {
            name: stack.enter_context(way(points, workers, prefetch)) for name, way in installed_ways(chosen).items()
        }
        for each in found.values():
            take(each, 2 * prefetch)
        for _ in range(rounds):
            samples.add(MEMCPY, secs_of_memcpy(shape, batches))
            samples.add(MEMCPY + READ, secs_of_memcpy(shape, batches, target))
            for name, each in found.items():
                samples.add(name, secs_of(each, batches, 4 * prefetch))
                samples.add(name + READ, secs_of(each, batches, 4 * prefetch, target))
    gigabytes = batches * int(np.prod(shape)) / 1e9
    return {
        "workers": workers,
        "gb_per_sec": {name: gigabytes / samples.median(name) for name in samples.seconds},
        "of_memcpy": {name: samples.ratio(MEMCPY, name) for name in samples.seconds},
        "of_memcpy_read": {name: samples.ratio(MEMCPY + READ, name) for name in samples.seconds if name.endswith(READ)},
        "secs": samples.figures(),
    }


def count_for(found, prefetch, most):
    """Return how many data points take a second, or ``most``, if that is less; take those that have piled up."""
    start = time.perf_counter()
    secs = secs_of(found, prefetch, prefetch)
    rate = prefetch / max(secs, 1e-6)
    while time.perf_counter() - start < 0.1:
        rate = prefetch / max(secs_of(found, prefetch, 0), 1e-6)
    return max(1, min(most, int(rate)))


def measure_tiny(workers, *, points, rounds, prefetch=1000, chosen=None):
    """Return points per second by way for points of eight floats, and tpack's ratios to the others.

    A way that is slow is not made to take as many points as the others, but as many as take it a second.
    """
    samples, source = Samples(), Repeat(TINY_SHAPE, np.float32)
    with ExitStack() as stack:
        found = {
            name: stack.enter_context(way(source, workers, prefetch)) for name, way in installed_ways(chosen).items()
        }
        counts = {name: count_for(each, 2 * prefetch, points) for name, each in found.items()}
        for _ in range(rounds):
            for name, each in found.items():
                samples.add(name, secs_of(each, counts[name], 2 * prefetch) / counts[name])
    return {
        "workers": workers,
        "points_per_sec": {name: 1 / samples.median(name) for name in samples.seconds},
        "tpack_over": {
            name: samples.ratio(name, TPACK) for name in samples.seconds if TPACK in found and name != TPACK
        },
        "points": counts,
        "secs": samples.figures(),
    }
