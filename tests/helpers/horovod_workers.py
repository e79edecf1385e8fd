"""What workers do that exchange by Horovod's names, for `tests.helpers.worker_job`."""

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

import tpack.horovod as hvd
from tests.helpers.worker_scenarios import Slope, outcome, train_slope
from tpack.compat.runtime import make_callable
from tpack.dataflow.sources import DataFromList
from tpack.estimator.estimator import Estimator
from tpack.estimator.spec import EstimatorSpec
from tpack.graph_builder.model_desc import ModelDesc
from tpack.horovod.runtime import current
from tpack.horovod.trainer import BytePSTrainer, HorovodTrainer
from tpack.input_source.feed import FeedInput
from tpack.multi_worker.codecs.names import make_exchange
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.tf1.contrib.slim.learning import create_train_op
from tpack.tf1.contrib.slim.learning import train as slim_train
from tpack.tf1.sessions import MonitoredTrainingSession as tf1_session
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config

STEPS, ROWS, WIDTH, TABLE = 20, 12, 3, 7


def evaluated(build: Callable[[], Any]) -> Any:
    """Return the values of tensors that are built in a graph of their own."""
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(build())


def run(what: str, **arguments: Any) -> Any:
    """Call a function of this module, and leave the job as the end of a program does."""
    try:
        value = globals()[what](**arguments)
    except Exception as error:
        current().close(error)
        raise
    hvd.shutdown()
    return value


def places() -> dict[str, Any]:
    """Return what is known of this process."""
    hvd.init()
    hvd.init()
    return {
        "rank": hvd.rank(),
        "size": hvd.size(),
        "local": (hvd.local_rank(), hvd.local_size()),
        "cross": (hvd.cross_rank(), hvd.cross_size()),
        "homogeneous": hvd.is_homogeneous(),
        "operations": evaluated(lambda: [hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op()]),
    }


def reductions() -> dict[str, Any]:
    """Return the results of reductions of numbers that tell the rank."""
    hvd.init()
    rank = hvd.rank()

    def build() -> dict[str, Any]:
        own = tf.constant([1.0, 2.0, -3.0]) * (rank + 1)
        whole = tf.constant([2, 5], tf.int32) + rank
        rows = tf.IndexedSlices(tf.fill([1, 2], float(rank + 1)), [rank], [4, 2])
        unknown = tf.placeholder_with_default(own, [None])
        gathered = hvd.allreduce(rows)
        grouped = hvd.grouped_allreduce([own, whole, rows], op=hvd.Sum)
        found = {
            "mean": hvd.allreduce(own),
            "older": hvd.allreduce(own, average=False, name="older"),
            "sum": hvd.allreduce(own, op=hvd.Sum, name="sum"),
            "min": hvd.allreduce(own, op=hvd.Min, name="min"),
            "max": hvd.allreduce(own, op=hvd.Max, name="max"),
            "product": hvd.allreduce(own, op=hvd.Product, name="product"),
            "adasum": hvd.allreduce(own, op=hvd.Adasum, name="adasum"),
            "cut": hvd.allreduce(whole, name="cut"),
            "scaled": hvd.allreduce(own, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0, name="scaled"),
            "unknown": hvd.allreduce(unknown, name="unknown"),
            "fp16": hvd.allreduce(own / 3, compression=hvd.Compression.fp16, name="fp16"),
            "values": gathered.values,
            "indices": gathered.indices,
            "grouped": [grouped[0], grouped[1], grouped[2].values],
        }
        for name, op in (("mean", hvd.Average), ("sum", hvd.Sum)):
            found[f"gradient of {name}"] = tf.gradients(hvd.allreduce(own, op=op, name=f"for_{name}"), own)[0]
        return found

    return evaluated(build)


def movements() -> dict[str, Any]:
    """Return the results of what moves rows between workers, and its gradients."""
    hvd.init()
    rank, size = hvd.rank(), hvd.size()

    def build() -> dict[str, Any]:
        rows = tf.constant(np.full([rank + 1, 2], rank, np.float32))
        gathered = hvd.allgather(rows)
        sent = hvd.broadcast(tf.constant([1.0, 2.0]) * rank, 1, name="sent")
        dealt, counts = hvd.alltoall(
            tf.range(1.0, size * (size + 1) // 2 + 1) + 100.0 * rank, splits=list(range(1, size + 1)), name="dealt"
        )
        table = tf.reshape(tf.range(10.0), [5, 2]) * (rank + 1)
        share = hvd.reducescatter(table, op=hvd.Sum, name="share")
        weights = tf.reshape(tf.range(1.0, 2.0 * size * (size + 1) // 2 + 1), [-1, 2])
        return {
            "gathered": gathered,
            "sent": sent,
            "dealt": dealt,
            "counts": counts,
            "even": hvd.alltoall(tf.range(size) + 10 * rank, name="even"),
            "share": share,
            "mean of share": hvd.reducescatter(table, name="mean_of_share"),
            "several": hvd.grouped_allgather([rows, rows + 1], name="several"),
            "shares": hvd.grouped_reducescatter([table, table * 2], op=hvd.Sum, name="shares"),
            "texts": hvd.allgather(tf.constant([f"rank {rank}"]), name="texts"),
            "gradient of gathered": tf.gradients(gathered, rows, weights)[0],
            "gradient of share": tf.gradients(share, table)[0],
            "gradient of dealt": tf.gradients(dealt * dealt, table)[0],
        }

    def checked() -> dict[str, Any]:
        found = build()
        del found["gradient of dealt"]
        return found

    return evaluated(checked)


def objects() -> dict[str, Any]:
    """Return objects that have travelled."""
    hvd.init()
    rank = hvd.rank()
    hvd.barrier()
    return {
        "of all": hvd.allgather_object({"rank": rank, "text": "x" * rank}),
        "of 1": hvd.broadcast_object(["from", rank], 1),
        "by function": hvd.broadcast_object_fn(0)(rank),
    }


def sets() -> dict[str, Any]:
    """Exchange in process sets, as three workers."""
    first = hvd.ProcessSet([0, 2])
    hvd.init(process_sets=[first])
    rank, found = hvd.rank(), {}
    second = hvd.add_process_set([1, 2])
    for name, each in (("first", first), ("second", second)):
        found[name] = (each.included(), each.size(), each.ranks)
        if each.included():
            found[f"{name} sum"] = evaluated(
                lambda each=each: hvd.allreduce(tf.constant(rank + 1.0), op=hvd.Sum, process_set=each)
            )
            found[f"{name} objects"] = hvd.allgather_object(rank, process_set=each)
        else:
            found[f"{name} refused"] = outcome(lambda each=each: hvd.allreduce(tf.constant(1.0), process_set=each))
    found["all"] = hvd.get_process_set_ids_and_ranks()
    found["again"] = outcome(lambda: hvd.add_process_set([0, 2]))
    found["too large"] = outcome(lambda: hvd.add_process_set([0, 3]))
    found["removed"] = hvd.remove_process_set(second), hvd.remove_process_set(second), second.size()
    found["all after"] = evaluated(lambda: hvd.allreduce(tf.constant(float(rank)), op=hvd.Sum))
    return found


def differences() -> dict[str, str]:
    """Run collective operations that do not fit each other; return the errors, and what works after them."""
    hvd.init()
    rank, found = hvd.rank(), {}
    built = {
        "shape": lambda: hvd.allreduce(tf.zeros([2 + rank]), name="shape"),
        "dtype": lambda: hvd.allreduce(tf.zeros([2], tf.float32 if rank else tf.float64), name="dtype"),
        "kind": lambda: hvd.allreduce(tf.zeros([2]), name="x") if rank else hvd.allgather(tf.zeros([2]), name="x"),
        "root": lambda: hvd.broadcast(tf.zeros([2]), rank, name="root"),
        "name": lambda: hvd.allreduce(tf.zeros([2]), name=f"name{rank}"),
        "variables": lambda: _broadcast_of(f"v{rank}"),
    }
    for name, build in built.items():
        found[name] = outcome(lambda build=build: evaluated(build))
    try:
        evaluated(lambda: hvd.allreduce(tf.placeholder_with_default(tf.zeros([2 + rank]), [None]), name="unknown"))
    except tf.errors.InvalidArgumentError as error:
        found["unknown shape"] = error.message
    found["root that is none"] = outcome(lambda: hvd.broadcast(tf.zeros([2]), 5))
    found["rows"] = outcome(lambda: hvd.alltoall(tf.zeros([3])))
    found["scalar"] = outcome(lambda: hvd.allgather(tf.zeros([])))
    with tf.Graph().as_default() as graph:
        orders = [hvd.allreduce(tf.constant(float(n)), name=f"n{n}", op=hvd.Sum) for n in ((0, 1), (1, 0))[rank % 2]]
        with tf.Session(graph=graph) as session:
            found["another order"] = sorted(session.run(orders))
    return found


def _broadcast_of(name: str) -> Any:
    tf.get_variable(name, [], initializer=tf.zeros_initializer())
    return hvd.broadcast_global_variables(0)


def crossed() -> str:
    """Run, with what is known already, another operation than the other worker."""
    os.environ["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "3"
    hvd.init()
    with tf.Graph().as_default():
        pair = [hvd.allreduce(tf.constant(1.0), name=name) for name in ("a", "b")]
        with tf.Session() as session:
            for each in pair:
                session.run(each)
            return outcome(lambda: session.run(pair[hvd.rank()]))


def missing() -> str:
    """Run an operation to which the other worker never comes, while it lives."""
    os.environ |= {"HOROVOD_STALL_CHECK_TIME_SECONDS": "2", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "10"}
    hvd.init()
    with tf.Graph().as_default(), tf.Session() as session:
        total = hvd.allreduce(tf.constant(1.0), name="lonely")
        session.run(total)
        if hvd.rank() == 1:
            found = "waited"
            while not os.path.exists("is over"):
                time.sleep(0.05)
        else:
            found = outcome(lambda: session.run(total))
            with open("is over", "w"):
                pass
    return found


def failing(how: str) -> str:
    """Let worker 1 end in a step for which worker 0 waits; return its error."""
    hvd.init()
    with tf.Graph().as_default(), tf.Session() as session:
        total = hvd.allreduce(tf.constant(1.0))
        session.run(total)
        if hvd.rank() == 1:
            if how == "killed":
                os.kill(os.getpid(), 9)
            raise ValueError("its data are wrong")
        return outcome(lambda: session.run(total))


def sessions() -> dict[str, Any]:
    """Use several kinds of sessions."""
    hvd.init()
    rank, found = hvd.rank(), {}
    with tf.Graph().as_default():
        weight = tf.get_variable("w", [], initializer=tf.constant_initializer(float(rank + 1)))
        late = hvd.broadcast_global_variables(1)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(late)
            found["broadcast"] = session.run(weight)
            added = hvd.allreduce(weight * (rank + 1), op=hvd.Sum)
            found["built later"] = session.run(added)
            number = tf.placeholder(tf.float32, [])
            product = hvd.allreduce(number * weight, op=hvd.Sum, name="product")
            found["callable"] = session.make_callable(product, [number])(float(rank))
            found["handle"] = make_callable(session, feeds=[number], fetches=[product])(np.float32(rank))[0]
        with tf.Session() as session:
            try:
                found["another session"] = session.run(weight)
            except tf.errors.FailedPreconditionError:
                found["another session"] = "no value"
    for name, make in (("monitored", tf.train.MonitoredTrainingSession), ("of tf1", tf1_session)):
        found[name] = _monitored(make)
    return found | {"supervisor": _supervised(), "slim": _slim(), "estimator": _estimated()}


def _toy(rank: int) -> Any:
    """Return a weight, and the op that takes the mean slope off it and counts the step."""
    weight = tf.get_variable("w", [], initializer=tf.constant_initializer(float(rank)))
    optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
    cost = weight * (rank + 1)
    return weight, cost, optimizer, optimizer.minimize(cost, global_step=tf.train.get_or_create_global_step())


def _supervised() -> float:
    """Return the weight after two steps in a Supervisor's session."""
    with tf.Graph().as_default():
        weight, _, _, train = _toy(hvd.rank())
        copied = hvd.broadcast_global_variables(1)
        supervisor = tf.train.Supervisor(logdir=None, init_fn=lambda session: session.run(copied))
        with supervisor.managed_session() as session:
            for _ in range(2):
                session.run(train)
            return float(session.run(weight))


def _slim() -> float:
    """Return the loss of the third step of slim's loop."""
    with tf.Graph().as_default():
        rank = hvd.rank()
        weight = tf.get_variable("w", [], initializer=tf.constant_initializer(float(rank)))
        step = tf.train.get_or_create_global_step()
        optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
        train = create_train_op(weight * (rank + 1), optimizer, global_step=step)
        copied = hvd.broadcast_global_variables(1)
        return float(slim_train(train, None, number_of_steps=3, init_fn=lambda session: session.run(copied)))


def _estimated() -> tuple[int, float]:
    """Return the step and the weight of an Estimator after three steps."""

    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        _, cost, _, train = _toy(hvd.rank())
        return EstimatorSpec(mode, loss=cost + 0 * tf.reduce_sum(features), train_op=train)

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensors((tf.ones([2]), tf.ones([2]))).repeat()

    estimator = Estimator(model_fn, model_dir=f"estimator{hvd.rank()}")
    estimator.train(input_fn, steps=3, hooks=[hvd.BroadcastGlobalVariablesHook(1)])
    return int(estimator.get_variable_value("global_step")), float(estimator.get_variable_value("w"))


def _monitored(make: Callable[..., Any]) -> list[float]:
    rank = hvd.rank()
    with tf.Graph().as_default():
        weight = tf.get_variable("w", [], initializer=tf.constant_initializer(float(rank)))
        optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
        train = optimizer.minimize(weight * (rank + 1), global_step=tf.train.get_or_create_global_step())
        hooks = [hvd.BroadcastGlobalVariablesHook(1), tf.train.StopAtStepHook(last_step=3)]
        seen = []
        with make(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train)
                if not session.should_stop():
                    seen.append(float(session.run(weight)))
        return seen


class Model(ModelDesc):
    """A dense and a sparse gradient."""

    def inputs(self) -> list[Any]:
        return [
            tf.TensorSpec([None, WIDTH], tf.float32, "x"),
            tf.TensorSpec([None], tf.int32, "row"),
            tf.TensorSpec([None], tf.float32, "y"),
        ]

    def build_graph(self, x: Any, row: Any, y: Any) -> Any:
        return cost_of(x, row, y)

    def optimizer(self) -> Any:
        return tf.train.AdamOptimizer(0.01)


def cost_of(x: Any, row: Any, y: Any) -> Any:
    """Return the cost of a small model."""
    table = tf.get_variable("table", [TABLE, 2], initializer=tf.random_normal_initializer(seed=3))
    kernel = tf.get_variable("kernel", [WIDTH + 2, 4], initializer=tf.random_normal_initializer(seed=4))
    out = tf.get_variable("out", [4, 1], initializer=tf.random_normal_initializer(seed=5))
    hidden = tf.tanh(tf.matmul(tf.concat([x, tf.nn.embedding_lookup(table, row)], 1), kernel))
    return tf.reduce_mean(tf.square(tf.matmul(hidden, out)[:, 0] - y))


def batches(rank: int, size: int) -> list[list[np.ndarray]]:
    """Return this worker's share of the rows of each step."""
    rng = np.random.RandomState(0)
    part = slice(rank * ROWS // size, (rank + 1) * ROWS // size)
    return [
        [
            rng.randn(ROWS, WIDTH).astype(np.float32)[part],
            rng.randint(0, TABLE, ROWS).astype(np.int32)[part],
            rng.randn(ROWS).astype(np.float32)[part],
        ]
        for _ in range(STEPS)
    ]


def trained(rank: int, size: int, steps: int = STEPS, **options: Any) -> dict[str, np.ndarray]:
    """Return the weights after steps of Adam in a plain session."""
    with tf.Graph().as_default():
        inputs = [tf.placeholder(spec.dtype, spec.shape) for spec in Model().inputs()]
        optimizer = hvd.DistributedOptimizer(tf.train.AdamOptimizer(0.01), **options)
        train = optimizer.minimize(cost_of(*inputs))
        copied = hvd.broadcast_global_variables(0)
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            session.run(copied)
            for batch in batches(rank, size)[:steps]:
                session.run(train, dict(zip(inputs, batch, strict=True)))
            return {each.op.name: session.run(each) for each in tf.trainable_variables()}


def training() -> dict[str, Any]:
    """Train the same in several ways."""
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    options = {
        "plain": {},
        "groups": {"groups": 2},
        "sum": {"op": hvd.Sum},
        "fp16": {"compression": hvd.Compression.fp16},
        "int8": {"compression": make_exchange("int8")},
        "dense": {"sparse_as_dense": True},
        "predivided": {"gradient_predivide_factor": 2.0},
        "adasum": {"op": hvd.Adasum},
        "passes": {"backward_passes_per_step": 4, "sparse_as_dense": True, "average_aggregated_gradients": True},
        "own": {"compression": Halved},
    }
    return {name: trained(rank, size, **each) for name, each in options.items()}


class Halved(hvd.Compressor):
    """A compression of a script: halves, which are exact."""

    @staticmethod
    def compress(tensor: Any) -> Any:
        return tensor / 2, tensor.dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tf.cast(tensor * 2, ctx)


def trainers() -> dict[str, Any]:
    """Train with tpack's trainer, and with those of tensorpack on Horovod after it, in the same processes."""
    hvd.init()
    found: dict[str, Any] = {}
    for name, make in (
        ("horovod", HorovodTrainer),
        ("fp16", lambda: HorovodTrainer(compression=hvd.Compression.fp16)),
        ("byteps", BytePSTrainer),
    ):
        found[name] = _of_trainer(make())
        found[f"{name} agrees"] = hvd.allgather_object(hvd.rank())
    found["refused"] = outcome(lambda: HorovodTrainer(compression=Halved))
    return found


def _of_trainer(trainer: Any) -> dict[str, np.ndarray]:
    points = batches(trainer.peers.rank, trainer.peers.size)
    config = TrainConfig(
        model=Model(),
        data=FeedInput(DataFromList(points, shuffle=False)),
        callbacks=[],
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=STEPS,
        max_epoch=1,
    )
    with tf.Graph().as_default():
        launch_train_with_config(config, trainer)
    return trainer.get_weights() if trainer.is_chief else {}


def replicated() -> dict[str, np.ndarray]:
    """Train as `training` does, with `MultiWorkerTrainerReplicated`."""
    return _of_trainer(MultiWorkerTrainerReplicated(1))


def joined() -> dict[str, Any]:
    """Let workers join one after the other, while the others reduce."""
    hvd.init()
    rank, found = hvd.rank(), {"sums": []}
    with tf.Graph().as_default():
        number = tf.placeholder(tf.float32, [2])
        total = hvd.allreduce(number, op=hvd.Sum, name="total")
        rows = hvd.allreduce(tf.constant([1, 2], tf.int64) + rank, op=hvd.Sum, name="whole")
        last = hvd.join()
        with tf.Session() as session:
            for step in range(2 + rank):
                sums, _ = session.run([total, rows], {number: [step + 1.0, rank]})
                found["sums"].append(sums.tolist())
            found["last"] = int(session.run(last + 0))
            found["after"] = session.run(total, {number: [1.0, 1.0]}).tolist()
    return found


def joined_in_passes() -> str:
    """Join while the other worker sums the gradients of several steps; return the error of either."""
    hvd.init()
    with tf.Graph().as_default():
        weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), backward_passes_per_step=2)
        train, last = optimizer.minimize(weight * 2), hvd.join()
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            if hvd.rank() == 0:
                session.run(last)
            else:
                session.run(train)
    return "no error"


def warned() -> list[str]:
    """Apply gradients that are not those of the optimizer; return the warnings."""
    hvd.init()
    with warnings.catch_warnings(record=True) as caught, tf.Graph().as_default():
        warnings.simplefilter("always")
        weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
        optimizer.apply_gradients([(tf.gradients(weight * 2, weight)[0], weight)])
    return [str(each.message) for each in caught if "DistributedOptimizer" in str(each.message)]


def slope_alone() -> str:
    """Train with a trainer of tpack after ``init`` and ``shutdown``."""
    hvd.init()
    evaluated(lambda: hvd.allreduce(tf.constant(1.0)))
    hvd.shutdown()
    is_there = hvd.is_initialized()
    return f"{is_there} {outcome(lambda: train_slope(Slope(), MultiWorkerTrainerReplicated(1)))}"
