"""Train with the monitors of services that keep experiments, by their real clients, without a network; read it back.

    python -m tests.trials.trackers [wandb] [mlflow] [comet] [tensorboard]

Each client must be installed; all are tried unless some are named. A training is made and resumed from the middle of
what it has sent, so that steps are reported twice. It raises where the client's store has anything but each step once.
"""

import json
import os
import struct
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.experiment_tracker import CometMonitor, MLflowMonitor, WandbMonitor
from tpack.callbacks.monitors.hparams import TensorBoardHParams
from tpack.callbacks.monitors.writers import TFEventWriter
from tpack.errors import CallbackError
from tpack.utils import logger

HPARAMS = {"learning_rate": 0.25, "depth": 18, "name": "digits", "is_new": True}
COSTS = {step: step / 10 for step in (2, 4, 6, 8)}


class Reports(Callback):
    def _setup_graph(self):
        self._histogram = tf.summary.histogram("weights", tf.constant(np.linspace(-1, 1, 100)))

    def _trigger(self):
        self.trainer.monitors.put_scalar("cost (all)", self.global_step / 10)
        self.trainer.monitors.put_image("picture", np.full([4, 5, 3], 7, np.uint8))
        self.trainer.monitors.put_summary(self.trainer.sess.run(self._histogram))


def train(make, first, last):
    """Train some epochs of two steps each; return what was logged."""
    with tf.Graph().as_default(), captured_log() as lines:
        FakeTrainer().train([Reports()], monitors=make(), epochs=(first, last), global_step=2 * (first - 1))
    return lines


def train_and_resume(make):
    for first, last in ((1, 3), (3, 4)):
        lines = train(make, first, last)
        if lines:
            raise AssertionError(lines)


def check(found, expected):
    if found != expected:
        raise AssertionError(f"{found} is not {expected}")


def try_wandb(directory):
    train_and_resume(lambda: [WandbMonitor("digits", hparams=HPARAMS, mode="offline")])
    from wandb.proto import wandb_internal_pb2 as pb  # noqa: PLC0415 (each client is one that need not be there)

    costs, ids, config, keys = {}, set(), {}, set()
    for path in sorted(directory.glob("wandb/offline-run-*/*.wandb")):
        for content in log_records(path.read_bytes()):
            record = pb.Record.FromString(content)
            if record.WhichOneof("record_type") == "run":
                ids.add(record.run.run_id)
                config.update({item.key: json.loads(item.value_json) for item in record.run.config.update})
            if record.WhichOneof("record_type") == "config":
                config.update({item.key: json.loads(item.value_json) for item in record.config.update})
            if record.WhichOneof("record_type") == "history":
                row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
                keys.update(row)
                if row["_step"] in costs:
                    raise AssertionError(f"step {row['_step']} is there twice")
                costs[row["_step"]] = row["cost (all)"]
    check(costs, COSTS)
    check(len(ids), 1)
    check({name: config[name] for name in HPARAMS}, HPARAMS)
    check({"picture", "Reports/weights"} - keys, set())


def log_records(data, block=1 << 15):
    """Yield the records of a file of wandb: those of a log of LevelDB, behind a header of seven bytes."""
    position, parts = 7, []
    while position + 7 <= len(data):
        if block - position % block < 7:
            position += block - position % block
            continue
        _, size, kind = struct.unpack_from("<IHB", data, position)
        parts.append(data[position + 7 : position + 7 + size])
        position += 7 + size
        if kind in (1, 4):
            yield b"".join(parts)
            parts = []


def try_mlflow(directory):
    import mlflow  # noqa: PLC0415 (each client is one that need not be there)

    uri = f"sqlite:///{directory}/mlflow.db"
    os.chdir(directory)
    train_and_resume(lambda: [MLflowMonitor(uri, "digits", hparams=HPARAMS)])
    store = mlflow.MlflowClient(uri)
    (run,) = store.search_runs([store.get_experiment_by_name("digits").experiment_id])
    history = store.get_metric_history(run.info.run_id, "cost _all_")
    check([(metric.step, metric.value) for metric in history], list(COSTS.items()))
    check(run.data.params, {name: str(value) for name, value in HPARAMS.items()})
    check(run.info.status, "FINISHED")
    images = [file.path for file in store.list_artifacts(run.info.run_id, "images") if file.path.endswith(".png")]
    check(len(images), len(COSTS))
    lines = train(lambda: [MLflowMonitor("http://127.0.0.1:9")], 1, 1)
    check(len(lines), 1)
    print(lines[0][:150], flush=True)


def try_comet(directory):
    train_and_resume(lambda: [CometMonitor("digits", "first", hparams=HPARAMS, online=False, tags=["a"])])
    keys, costs, params, assets, others = set(), {}, {}, set(), []
    for path in sorted(directory.glob("comet/*.zip"), key=os.path.getmtime):
        keys.add(path.stem[:32])
        with zipfile.ZipFile(path) as archive:
            for line in archive.read("messages.json").splitlines():
                told = json.loads(line)["payload"]
                metric, param = told.get("metric", {}), told.get("param", {})
                if metric.get("metricName") == "cost (all)":
                    if metric["step"] in costs:
                        raise AssertionError(f"step {metric['step']} is there twice")
                    costs[metric["step"]] = metric["metricValue"]
                if param.get("source") == "manual":
                    params[param["paramName"]] = param["paramValue"]
                assets.add(told.get("upload_type"))
                others.append((told.get("key"), told.get("value")))
    check(costs, COSTS)
    check(params, HPARAMS)
    check(len(keys), 1)
    check({"visualization", "histogram3d"} - assets, set())
    check(others.count(("training", "finished")), 2)
    begun = time.monotonic()
    os.environ.update(COMET_API_KEY="x" * 25, COMET_URL_OVERRIDE="http://127.0.0.1:9/clientlib/")
    try:
        lines = train(lambda: [CometMonitor("digits")], 1, 1)
    except CallbackError as error:
        lines = [str(error)]
    check(len(lines), 1)
    print(f"without a server, after {time.monotonic() - begun:.1f} s: {lines}", flush=True)


def try_tensorboard(directory):
    train_and_resume(lambda: [TFEventWriter(), TensorBoardHParams(HPARAMS)])
    from tensorboard.backend.event_processing import event_multiplexer  # noqa: PLC0415 (need not be there)
    from tensorboard.plugins.hparams import plugin_data_pb2  # noqa: PLC0415 (need not be there)

    runs = event_multiplexer.EventMultiplexer().AddRunsFromDirectory(str(directory)).Reload()
    tags = runs.SummaryMetadata(".", "_hparams_/session_start_info")
    start = plugin_data_pb2.HParamsPluginData.FromString(tags.plugin_data.content).session_start_info
    said = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
    check(said, HPARAMS)
    tags = runs.SummaryMetadata(".", "_hparams_/session_end_info")
    check(plugin_data_pb2.HParamsPluginData.FromString(tags.plugin_data.content).session_end_info.status, 1)


def main():
    tried = {"wandb": try_wandb, "mlflow": try_mlflow, "comet": try_comet, "tensorboard": try_tensorboard}
    for name in sys.argv[1:] or tried:
        with tempfile.TemporaryDirectory() as directory:
            logger.set_logger_dir(directory, action="k")
            tried[name](Path(directory))
            logger.close_logger_dir()
            os.chdir("/")
        print(f"{name}: each step once, in one run", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
