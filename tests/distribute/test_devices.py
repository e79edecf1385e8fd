"""Device names as keys."""

import pytest

from tpack.distribute.devices import device_key
from tpack.errors import ConfigError


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
    assert device_key(name) == "/device:GPU:1"


def test_the_first_device_of_a_kind_is_meant_where_no_number_is_given():
    assert device_key("/cpu") == "/device:CPU:0"


def test_devices_of_a_cluster_keep_their_job_and_task():
    assert device_key("/job:worker/task:3/gpu:0") == "/job:worker/task:3/device:GPU:0"


def test_no_device_stays_no_device():
    assert device_key("") == ""


def test_a_name_that_is_none_is_an_error():
    with pytest.raises(ConfigError, match="is no device name"):
        device_key("/gpu:x")
