"""What is asked of a Ray cluster, and what a broken one does; jobs on a real one are in ``tests/test_ray.py``."""

import sys
from types import SimpleNamespace
from unittest import mock

import pytest

from tpack.cli.launcher.plan import Host
from tpack.cli.launcher.ray_machines import RayMachines, check_resources, parse_resources, ray_connected
from tpack.cli.main import main
from tpack.errors import ClusterError, ConfigError


def test_resources_are_read():
    assert parse_resources("CPU=4, GPU=0.5,accelerator_type:A100=1") == {
        "CPU": 4,
        "GPU": 0.5,
        "accelerator_type:A100": 1,
    }


@pytest.mark.parametrize("text", ["", "CPU", "CPU=", "CPU=-1", "CPU=1,CPU=2", "CPU=1,,GPU=1", "4"])
def test_resources_that_are_none_are_refused(text):
    with pytest.raises(ConfigError, match="expected each resource once, with a number, as in CPU=4,GPU=1"):
        parse_resources(text)


@pytest.mark.parametrize("wrong", [{"CPU": True}, {"CPU": "1"}, {"": 1}, {1: 1}, {"CPU": float("inf")}])
def test_what_is_no_resource_is_refused(wrong):
    with pytest.raises(ConfigError, match="expected a resource's name, and a number"):
        check_resources("a function", wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--resources", "CPU=1"], "--resources got a value without --on ray: expected both"),
        (["--on", "ray", "--hosts", "a:2"], "--hosts got machines, and --on ray assigns them"),
        (["--on", "ray", "--resources", "CPU=0"], "a worker needs nothing: expected resources such as {'CPU': 1}"),
        (["--on", "ray", "--resources", "CPU"], "--resources got 'CPU'"),
    ],
)
def test_options_that_cannot_be_on_ray_are_refused(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").touch()
    assert main(["launch", *options, "s.py"]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["s.py"]


def test_a_cluster_that_cannot_be_reached_is_an_error(monkeypatch):
    ray = SimpleNamespace(is_initialized=lambda: False, init=mock.Mock(side_effect=ConnectionError("nobody there")))
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(ClusterError, match="Ray cannot be reached: nobody there"), ray_connected():
        pass


class FakeRayError(Exception):
    """What calls of actors that are gone raise."""


@pytest.fixture
def ray():
    """A cluster that has room, and whose actors are gone as soon as somebody asks them."""
    fake = mock.MagicMock()
    fake.exceptions.RayError = FakeRayError
    fake.util.placement_group.return_value.wait.return_value = True
    fake.cluster_resources.return_value = {"CPU": 3.0}
    fake.get.side_effect = FakeRayError("gone")
    return fake


def test_actors_that_do_not_start_are_an_error_and_leave_nothing(ray):
    with (
        pytest.raises(ClusterError, match="an actor of Ray did not start: gone"),
        RayMachines(ray, {"CPU": 1, "memory": 2, "disk": 3}).take((Host(), Host())),
    ):
        pass
    ray.util.placement_group.assert_called_once_with([{"CPU": 1, "memory": 2, "disk": 3}] * 2, strategy="PACK")
    assert ray.kill.call_count == 2
    ray.util.remove_placement_group.assert_called_once_with(ray.util.placement_group.return_value)
    asked = ray.remote.call_args.kwargs
    assert (asked["num_cpus"], asked["num_gpus"], asked["memory"], asked["resources"]) == (1, 0, 2, {"disk": 3})


def test_no_room_is_an_error_and_leaves_nothing(ray):
    ray.util.placement_group.return_value.wait.return_value = False
    machines = RayMachines(ray, {"CPU": 2, "GPU": 1}, strategy="SPREAD", start_secs=5)
    wanted = r"no room for 1 workers of CPU 2, GPU 1 each within 5 s \(SPREAD\): all .* have CPU 3, GPU 0, and"
    with pytest.raises(ClusterError, match=wanted), machines.take((Host(),)):
        pass
    ray.util.remove_placement_group.assert_called_once()


def test_ranks_of_a_node_follow_each_other_and_who_is_gone_has_left_nothing(ray):
    ray.get.side_effect = [["a", "b", "a"], b"first", FakeRayError("gone"), b"last"]
    machines = RayMachines(ray, {"CPU": 1})
    with machines.take((Host(),) * 3) as hosts:
        assert [(host.name, host.login) for host in hosts] == [("a", "actor 0"), ("a", "actor 2"), ("b", "actor 1")]
    assert machines.results == [b"first", None, b"last"]
