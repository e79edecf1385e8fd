"""Sessions on a server: the chief initialises, the others wait for it."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.source import ROOT
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.tfutils.sesscreate import get_distributed_session_creator


def server(target: str, job: str, task: int) -> Any:
    """Return what a task sees of its server."""
    return SimpleNamespace(target=target, server_def=SimpleNamespace(job_name=job, task_index=task))


@pytest.mark.parametrize(("job", "task", "expected"), [("worker", 0, True), ("worker", 1, False), ("ps", 0, False)])
def test_the_chief_is_the_first_worker(job: str, task: int, expected: bool) -> None:
    assert get_distributed_session_creator(server("", job, task)).is_chief is expected


def test_variables_are_initialised_by_the_chief_and_shared(tmp_path: Any) -> None:
    with (
        PortReservation() as reservation,
        open(tmp_path / "stderr.txt", "w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.cluster_task", "0", "1", str(reservation.port)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as task,
        tf.Graph().as_default(),
    ):
        try:
            target = task.stdout.readline().strip()  # type: ignore[union-attr]
            assert target, (tmp_path / "stderr.txt").read_text()
            variable = tf.get_variable("v", initializer=3.0, use_resource=True)
            local = tf.get_variable("l", initializer=4.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
            with get_distributed_session_creator(server(target, "worker", 0)).create_session() as chief:
                chief.run(variable.assign(5.0))
                with get_distributed_session_creator(server(target, "worker", 1)).create_session() as other:
                    assert other.run([variable, local]) == [5.0, 4.0]
        finally:
            task.kill()
