from concurrent.futures import ThreadPoolExecutor

from tpack.reduction.algorithms.collective import CollectiveKeys


def test_a_set_of_devices_has_one_key() -> None:
    keys = CollectiveKeys()
    key = keys.group_key(["/device:CPU:0", "/device:CPU:1"])
    assert keys.group_key(["/device:CPU:1", "/device:CPU:0"]) == key
    assert keys.group_key(["/device:CPU:0", "/device:CPU:2"]) != key
    assert keys.group_key(iter(["/device:CPU:0"])) not in (key, None)


def test_instance_keys_are_never_given_twice() -> None:
    keys = CollectiveKeys()
    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(lambda _: keys.next_instance_key(), range(400)))
    assert len(set(given)) == 400
    assert 0 < min(given) <= max(given) < 2**31
