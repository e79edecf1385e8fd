import pytest

from tests.helpers.builders import places_of
from tpack.errors import ConfigError
from tpack.graph_builder.towers import SyncMultiGPUParameterServerBuilder


def test_parameter_server_balances_variables_and_their_slots(graph):
    places = places_of(SyncMultiGPUParameterServerBuilder(4, "gpu"))
    assert sorted(places[weight] for weight in "abcd") == [f"/device:CPU:{k}" for k in range(4)]
    assert all(places[weight] == places[f"{weight}/Momentum"] for weight in "abcd")


def test_parameter_server_on_the_cpu_keeps_variables_there(graph):
    places = places_of(SyncMultiGPUParameterServerBuilder(4, "cpu"))
    assert {places[weight] for weight in "abcd"} == {"/device:CPU:0"}


def test_parameter_server_wants_cpu_or_gpu():
    with pytest.raises(ConfigError, match="ps_device='tpu': expected cpu or gpu"):
        SyncMultiGPUParameterServerBuilder(2, "tpu")
