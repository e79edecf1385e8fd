"""Devices that a script asks for, and those that a session must have."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.sessions import cpu_session
from tpack.errors import ConfigError, DeviceError
from tpack.tower import devices


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", list)


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", lambda: [f"/device:GPU:{k}" for k in range(4)])


def test_list_gpus_is_what_tensorflow_sees(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["x", "y"] if kind == "GPU" else [])
    assert devices.list_gpus() == ["/device:GPU:0", "/device:GPU:1"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", ""),
        ("/gpu:3", "/device:GPU:3"),
        ("/cpu:0", "/device:CPU:0"),
        ("/device:CPU:3", "/device:CPU:3"),
        ("/job:worker/task:1/gpu:0", "/job:worker/task:1/device:GPU:0"),
        ("/job:ps", "/job:ps"),
    ],
)
def test_canonical_device_writes_one_way(name, expected):
    assert devices.canonical_device(name) == expected


@pytest.mark.parametrize("name", ["gpu3", "/gpu:x", "/device:GPU:1/device:CPU:0"])
def test_canonical_device_refuses_what_is_no_device(name):
    with pytest.raises(ConfigError, match="expected the name of a device"):
        devices.canonical_device(name)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (3, "/device:CPU:3"),
        ("/gpu:3", "/device:CPU:3"),
        ("/device:GPU:0", "/device:CPU:0"),
        ("/job:localhost/task:0/gpu:2", "/job:localhost/task:0/device:CPU:2"),
        (-1, "/device:CPU:0"),
        ("/cpu:1", "/device:CPU:1"),
        ("/job:worker/task:1/gpu:3", "/job:worker/task:1/device:GPU:3"),
        ("/job:ps", "/job:ps"),
        ("", ""),
    ],
)
def test_resolve_device_without_gpus_names_the_cpu_device_of_the_same_number(no_gpu, device, expected):
    assert devices.resolve_device(device) == expected


@pytest.mark.parametrize(
    ("device", "expected"), [(3, "/device:GPU:3"), ("/gpu:0", "/device:GPU:0"), ("/cpu:9", "/device:CPU:9")]
)
def test_resolve_device_with_gpus_keeps_them(four_gpus, device, expected):
    assert devices.resolve_device(device) == expected


@pytest.mark.parametrize("device", [7, "/gpu:7"])
def test_resolve_device_that_the_machine_lacks_lists_what_there_is(four_gpus, device):
    with pytest.raises(DeviceError, match=r"no GPU 7: this machine has 4, /device:GPU:0, .*GPU:3"):
        devices.resolve_device(device)


# Numbers that no other test asks for: a line is logged once in a process.
@pytest.mark.parametrize(
    ("gpus", "indices"), [(17, range(17)), ([50, 52, 55], [50, 52, 55]), (range(40, 42), [40, 41])]
)
def test_resolve_devices_without_gpus_says_so_in_one_line(no_gpu, gpus, indices):
    with captured_log() as lines:
        resolved = devices.resolve_devices(gpus)
        devices.resolve_devices(gpus)
    assert resolved == tuple(f"/device:CPU:{k}" for k in indices)
    said = [line for line in lines if "no GPU" in line]
    assert len(said) == 1
    assert f"{len(indices)} tower(s) go to the logical CPU devices {', '.join(resolved)}" in said[0]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["/gpu:1", "/gpu:0"], [1, 0]),
        (["/gpu:0", "/cpu:0"], [1, 0]),
        (["/cpu:0", "/gpu:0", "/gpu:1"], [0, 2, 1]),
        (["/gpu:0", "/gpu:0", "/device:CPU:0"], [1, 1, 0]),
    ],
)
def test_resolve_together_gives_different_names_different_devices(no_gpu, names, found):
    assert devices.resolve_together(names) == [f"/device:CPU:{k}" for k in found]


def test_resolve_together_with_gpus_keeps_the_names(four_gpus):
    assert devices.resolve_together(["/gpu:0", "/cpu:0"]) == ["/device:GPU:0", "/device:CPU:0"]


def test_resolve_devices_with_gpus_says_nothing(four_gpus):
    with captured_log() as lines:
        assert devices.resolve_devices([3, 1]) == ("/device:GPU:3", "/device:GPU:1")
    assert not [line for line in lines if "GPU" in line]


def test_resolve_devices_that_the_machine_lacks_is_an_error(four_gpus):
    with pytest.raises(DeviceError, match="there is no GPU 4: this machine has 4"):
        devices.resolve_devices(5)


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        (0, "at least one tower"),
        ([], "at least one tower"),
        (-1, "at least one tower"),
        ([0, -1], "different GPU numbers from 0 up"),
        ([1, 1], "different GPU numbers from 0 up"),
        (["/gpu:0"], r"^resolve_devices got gpus\[0\]='/gpu:0': expected an integer"),
        ([True], r"^resolve_devices got gpus\[0\]=True: expected an integer"),
        ("8", "^resolve_devices got gpus="),
        (2.0, "^resolve_devices got gpus="),
        (True, "^resolve_devices got gpus="),
        (None, "^resolve_devices got gpus="),
    ],
)
def test_resolve_devices_refuses_what_is_no_list_of_gpus(no_gpu, gpus, message):
    with pytest.raises(ConfigError, match=message):
        devices.resolve_devices(gpus)


def build_on(*names):
    for name in names:
        with tf.device(name):
            tf.constant(0)


def test_required_cpu_devices_is_one_for_a_graph_that_asks_for_none(graph):
    build_on(None, "/job:worker/task:1/cpu:6", "/gpu:7", "/device:CPU:*", "/job:ps")
    assert devices.required_cpu_devices(graph) == 1


def test_required_cpu_devices_counts_up_to_the_highest(graph):
    build_on("/cpu:2", "/device:CPU:5", "/job:localhost/cpu:1")
    assert devices.required_cpu_devices(graph) == 6


@pytest.mark.parametrize(("cores", "num_devices", "threads"), [(2, 1, 0), (2, 2, 1), (2, 8, 1), (16, 2, 8), (16, 6, 2)])
def test_cpu_devices_share_the_cores(graph, monkeypatch, cores, num_devices, threads):
    monkeypatch.setattr(devices, "usable_cores", lambda: cores)
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    build_on("/gpu:9", f"/cpu:{num_devices - 1}")
    config = tf.ConfigProto()
    devices.provide_cpu_devices(config, graph)
    assert config == tf.ConfigProto(device_count={"CPU": num_devices}, intra_op_parallelism_threads=threads)


@pytest.mark.parametrize(
    ("own", "num_devices", "threads"), [(16, 1, 0), (4, 1, 4), (1, 1, 1), (8, 2, 4), (1, 2, 1), (16, 2, 8)]
)
def test_cpu_devices_share_the_cores_that_other_processes_leave(graph, monkeypatch, own, num_devices, threads):
    monkeypatch.setattr(devices, "usable_cores", lambda: 16)
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    build_on(f"/cpu:{num_devices - 1}")
    config = tf.ConfigProto()
    devices.provide_cpu_devices(config, graph, own)
    assert config == tf.ConfigProto(device_count={"CPU": num_devices}, intra_op_parallelism_threads=threads)


def test_a_number_of_threads_in_the_environment_is_kept(graph, monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "4")
    build_on("/cpu:3")
    config = tf.ConfigProto()
    devices.provide_cpu_devices(config, graph)
    assert config == tf.ConfigProto(device_count={"CPU": 4})


def test_what_a_configuration_says_of_cpu_devices_is_kept(graph):
    build_on("/cpu:3")
    config = tf.ConfigProto(device_count={"CPU": 7}, intra_op_parallelism_threads=5)
    devices.provide_cpu_devices(config, graph)
    assert config == tf.ConfigProto(device_count={"CPU": 7}, intra_op_parallelism_threads=5)
    config = tf.ConfigProto(device_count={"CPU": 2})
    devices.provide_cpu_devices(config, graph)
    assert config.device_count["CPU"] == 4


def test_local_devices_are_those_of_this_process(graph):
    build_on("/cpu:2", "/cpu:2", "/gpu:1", "/job:worker/cpu:4", "/job:localhost/task:0/cpu:3")
    assert devices.local_devices(graph) == {("CPU", 2), ("GPU", 1), ("CPU", 3)}


def test_check_session_devices_accepts_a_session_that_has_them(graph):
    build_on("/cpu:2", "/job:worker/gpu:4")
    with cpu_session(graph, num_cpus=3) as session:
        devices.check_session_devices(session, graph)
        assert len([d for d in session.list_devices() if d.device_type == "CPU"]) == devices.required_cpu_devices(graph)


def test_check_session_devices_lists_what_is_missing_and_what_is_there(graph):
    build_on("/cpu:1", "/cpu:3", "/gpu:40")
    wanted = r"operations on /device:CPU:3, /device:GPU:40, and the session has only /device:CPU:0, /device:CPU:1"
    with cpu_session(graph, num_cpus=2) as session, pytest.raises(DeviceError, match=wanted):
        devices.check_session_devices(session, graph)


@pytest.mark.parametrize(
    "name",
    [
        "/gpu:1",
        "GPU:1",
        "/device:GPU:1",
        "/job:localhost/replica:0/task:0/device:GPU:1",
        "/task:0/gpu:1",
        "device:gpu:1",
    ],
)
def test_every_name_of_a_device_of_this_process_is_one_key(name):
    assert devices.device_key(name) == "/device:GPU:1"


def test_the_first_device_of_a_kind_is_meant_where_no_number_is_given():
    assert devices.device_key("/cpu") == "/device:CPU:0"


def test_devices_of_a_cluster_keep_their_job_and_task():
    assert devices.device_key("/job:worker/task:3/gpu:0") == "/job:worker/task:3/device:GPU:0"


def test_no_device_stays_no_device():
    assert devices.device_key("") == ""


def test_a_name_that_is_none_is_an_error():
    with pytest.raises(ConfigError, match="expected the name of a device"):
        devices.device_key("/gpu:x")
