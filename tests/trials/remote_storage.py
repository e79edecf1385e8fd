"""Train into a bucket that fails, kill the training at random, and go on on a machine that has nothing of it.

    python -m tests.trials.remote_storage [--trainings N] [--epochs N] [--fault-rate P] [--seed N]

It wants ``pip install 's3fs' 'moto[server]'``: moto is the object store, and fails some requests on the way to it. It
answers 503, or not at all until the client has given up, or it keeps half of an object and says that all is well. At
the end, each training must have the weights of one that nothing happened to, bit by bit.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import boto3
import numpy as np
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tests.helpers.source import ROOT
from tpack.tfutils.checkpoint import CheckpointReader, latest_checkpoint
from tpack.utils.remote.directories import local_path

CLIENT_LIMIT_SECS = 3
BUCKET = "runs"


class FaultyServer:
    """An object store that fails a part of the requests.

    Args:
        rate: how many of them.
        seed: draws which, and how.
    """

    def __init__(self, rate: float, seed: int) -> None:
        self.rate = rate
        self.counts: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._store = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            kind = self._random.choice(("503", "time-out", "half")) if self._random.random() < self.rate else ""
        if kind == "half" and environ["REQUEST_METHOD"] != "PUT":
            kind = "503"
        self.counts[kind or "served"] += 1
        if kind == "503":
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("503 Slow Down", [("Content-Length", "0")])
            return [b""]
        if kind == "time-out":
            threading.Event().wait(CLIENT_LIMIT_SECS + 1)
        if kind == "half":
            environ["wsgi.input"] = HalfAnObject(environ)
        return self._store(environ, start)


class HalfAnObject:
    """The body of a request, of which the second half is lost."""

    def __init__(self, environ: dict[str, Any]) -> None:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        self._left = body[: len(body) // 2]
        environ["CONTENT_LENGTH"] = str(len(self._left))
        for name in [name for name in environ if name.startswith(("HTTP_X_AMZ_CHECKSUM", "HTTP_CONTENT_MD5"))]:
            del environ[name]

    def read(self, size: int = -1) -> bytes:
        """Return what is left of the first half."""
        size = len(self._left) if size is None or size < 0 else size
        given, self._left = self._left[:size], self._left[size:]
        return given

    def readline(self, size: int = -1) -> bytes:
        """Do as `read`: nobody asks for lines of an object."""
        return self.read(size)

    def close(self) -> None:
        """Have nothing to close."""


def environment(server: FaultyServer, cache: Path) -> dict[str, str]:
    options = {
        "config_kwargs": {
            "read_timeout": CLIENT_LIMIT_SECS,
            "connect_timeout": CLIENT_LIMIT_SECS,
            "retries": {"max_attempts": 1},
        }
    }
    return {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "trial",
        "AWS_SECRET_ACCESS_KEY": "trial",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.url,
        "FSSPEC_S3": json.dumps(options),
        "TPACK_REMOTE_CACHE": str(cache),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def start(log_dir: str, epochs: int, env: dict[str, str], log: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.helpers.remote_training", log_dir, str(epochs)]
    command += ["--slow", "0.4", "--period", "0.3"]
    with open(log, "a") as file:
        return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=file, text=True)


def train_with_kills(url: str, epochs: int, env: dict[str, str], log: Path, moments: random.Random) -> int:
    """Train until a training ends well, on a fresh machine each time; return how many were killed."""
    kills = 0
    while True:
        shutil.rmtree(env["TPACK_REMOTE_CACHE"], ignore_errors=True)
        process = start(url, epochs, env, log)
        steps = moments.randint(5, 30)
        for _ in process.stdout or ():
            steps -= 1
            if steps == 0:
                process.kill()
        code = process.wait()
        if code == 0:
            return kills
        # One that could not reach the bucket ends with an error, and is started again as the killed one is.
        last = log.read_text().splitlines()[-1]
        assert code == -9 or "RemoteError" in last, f"ended with {code}: {last}"
        kills += 1


def values(directory: str) -> dict[str, np.ndarray]:
    prefix = latest_checkpoint(directory)
    assert prefix is not None
    reader = CheckpointReader(prefix)
    return {name: reader.read(name) for name in reader.shapes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainings", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--fault-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    moments, server = random.Random(options.seed), FaultyServer(0.0, options.seed)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        env = environment(server, folder / "cache")
        os.environ.update(env)
        boto3.client("s3", endpoint_url=server.url).create_bucket(Bucket=BUCKET)
        start(str(folder / "wanted"), options.epochs, env, folder / "wanted.txt").communicate()
        wanted = values(str(folder / "wanted"))
        for number in range(options.trainings):
            url, log = f"s3://{BUCKET}/run{number}", folder / f"log{number}.txt"
            server.rate = options.fault_rate
            kills = train_with_kills(url, options.epochs, env, log, moments)
            server.rate = 0.0
            found = values(local_path(url))
            assert found.keys() == wanted.keys()
            for name, value in wanted.items():
                np.testing.assert_array_equal(found[name], value, err_msg=f"{name} of {url}")
            damaged = log.read_text().count("Skipping a checkpoint")
            print(f"{url}: equal after {kills} kills, {damaged} damaged checkpoints; {dict(server.counts)}", flush=True)


if __name__ == "__main__":
    main()
