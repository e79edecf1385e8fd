from types import SimpleNamespace

import tensorflow.compat.v1 as tf

from tpack.reduction.autotune import topology
from tpack.reduction.autotune.topology import DGX1_LINKS, has_dgx1_links, visible_links


def test_links_of_a_dgx1_go_both_ways_and_to_four_gpus_each():
    assert all(len(own) == 4 for own in DGX1_LINKS)
    assert all((k in DGX1_LINKS[j]) == (j in DGX1_LINKS[k]) for j in range(8) for k in range(8))


def test_links_to_itself_do_not_count():
    assert has_dgx1_links(DGX1_LINKS)
    assert has_dgx1_links([own | {k} for k, own in enumerate(DGX1_LINKS)])


def test_other_links_are_not_those_of_a_dgx1():
    everything = frozenset(range(8))
    assert not has_dgx1_links([])
    assert not has_dgx1_links([frozenset()] * 8)
    assert not has_dgx1_links([everything] * 8)
    assert not has_dgx1_links(DGX1_LINKS[:7])
    assert not has_dgx1_links([*DGX1_LINKS[:7], DGX1_LINKS[0]])


def test_cpu_devices_are_visible_and_have_no_links():
    links = visible_links(tf.ConfigProto(device_count={"CPU": 2, "GPU": 0}))
    assert links == {"/device:CPU:0": frozenset(), "/device:CPU:1": frozenset()}


def test_links_are_those_that_tensorflow_reports(monkeypatch):
    def gpu(index, *linked):
        links = SimpleNamespace(link=[SimpleNamespace(device_id=k) for k in linked])
        return SimpleNamespace(name=f"/device:GPU:{index}", locality=SimpleNamespace(links=links))

    monkeypatch.setattr(topology, "list_local_devices", lambda config: [gpu(0, 1), gpu(1, 0, 2), gpu(2)])
    assert list(visible_links().values()) == [{1}, {0, 2}, set()]
