import json

import pytest

from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.base import Cast
from tpack.multi_worker.codecs.quantization import Int8
from tpack.multi_worker.scaling.network import NetworkSpeed
from tpack.multi_worker.scaling.schedule import GradientSpec, Place
from tpack.multi_worker.scaling.study import Design, Workload, best_designs, predict, predictions, with_codecs

NETWORK = NetworkSpeed(1e-4, 1.25e9, 1e-4, 3e-4, 5e-10, 1.5e-10, 5e-4, cores=8)
WORK = Workload.of_shapes([[1000, 500], [500], [2000, 1000], [1000]] * 2, 0.1, 0.002)


def test_gradients_without_a_trace_are_ready_in_reverse_in_the_last_two_thirds():
    work = Workload.of_shapes([[3], [4, 5], [6]], 0.3)
    assert [each.ready for each in work.gradients] == pytest.approx([1.0, 7 / 9, 5 / 9])
    assert work.size_bytes == 4 * 29


def test_a_trace_is_read(tmp_path):
    path = tmp_path / "profile-1-2.gradients.json"
    gradient = {"name": "w", "shape": [3, 4], "dtype": "float16", "ready": 0.75, "sparse": False}
    path.write_text(json.dumps({"step_secs": 0.2, "jitter_secs": 0.01, "gradients": [gradient]}))
    work = Workload.read(str(path))
    assert work == Workload([GradientSpec("w", (3, 4), "float16", 0.75)], 0.2, 0.01)
    path.write_text(json.dumps({"step_secs": 0.2}))
    with pytest.raises(ConfigError, match="Workload.read got .*gradients.json: expected the gradients.json that Prof"):
        Workload.read(str(path))
    with pytest.raises(ConfigError, match="expected a JSON file"):
        Workload.read(str(tmp_path / "none.json"))
    with pytest.raises(ConfigError, match="Workload got gradients"):
        Workload([], 0.1)


def test_a_design_is_read_from_text():
    design = Design.parse("int8+levels=2+bucket=16+accumulate=4")
    assert (design.exchange.codec, design.exchange.levels, design.exchange.bucket_bytes) == (Int8(), 2, 2**24)
    assert (design.trainer, design.accumulate, design.sync_every_steps) == ("replicated", 4, 1)
    assert Design.parse("replicated").exchange == Exchange()
    assert Design.parse("sharded+levels=machines").exchange.levels == "machines"
    assert (Design.parse("ps=3").trainer, Design.parse("ps=3").servers) == ("ps", 3)
    assert Design.parse("sync=8").sync_every_steps == 8


@pytest.mark.parametrize("text", ["", "int9", "ps", "bucket=x", "accumulate=0", "levels="])
def test_other_texts_are_refused(text):
    with pytest.raises(ConfigError, match="Design.parse got text="):
        Design.parse(text)


def test_weights_are_exchanged_at_the_end_and_in_one_level():
    schedule, gradients = Design.parse("sync=8+levels=2").schedule(WORK, Place(16))
    assert {each.ready for each in gradients} == {1.0}
    assert schedule.peers == 15


def test_steps_without_an_exchange_count_in_the_mean():
    plain, fourth = (predict(Design.parse(text), WORK, NETWORK, 8) for text in ("replicated", "accumulate=4"))
    alone = WORK.step_secs + NETWORK.step_secs
    assert plain.alone_secs == fourth.alone_secs == alone
    assert fourth.sent_bytes == plain.sent_bytes / 4
    # Stragglers of four steps are twice as late as of one.
    later = predict(Design.parse("replicated"), Workload(WORK.gradients, 0.1, 0.004), NETWORK, 8)
    assert fourth.step.secs == pytest.approx((later.step.secs + 3 * alone) / 4)
    for each in (plain, fourth):
        assert sum(each.step.causes.values()) == pytest.approx(each.step.secs)
        assert each.figures()["share"] == each.share == pytest.approx(alone / each.step.secs)


def test_one_worker_scales_linearly():
    steady = Workload(WORK.gradients, 0.1)
    assert predict(Design(), steady, NETWORK, 1).share == pytest.approx(1.0)


def test_messages_limit_many_workers_in_one_level_and_two_levels_are_better():
    found = list(predictions([Design.parse(text) for text in ("levels=1", "levels=2")], WORK, NETWORK, [4, 1024]))
    one, two = (next(e for e in found if (e.design, e.workers) == (text, 1024)) for text in ("levels=1", "levels=2"))
    assert one.step.limit == "messages"
    assert one.messages > 10 * two.messages
    assert best_designs(found)[1024] is two
    assert list(best_designs(found)) == [4, 1024]


def test_what_so_many_cannot_run_is_left_out():
    found = list(predictions([Design.parse("sharded")], WORK, NETWORK, [4, 64]))
    assert [each.workers for each in found] == [4]
    with pytest.raises(ConfigError, match="predict got workers=0"):
        predict(Design(), WORK, NETWORK, 0)
    with pytest.raises(ConfigError, match="accumulate"):
        Design(accumulate=0)


def test_codecs_are_measured_once():
    designs = [Design.parse("int8"), Design.parse("levels=1"), Design.parse("bfloat16")]
    known = with_codecs(NETWORK, designs, WORK)
    encode, decode = known.codec_secs(designs[0].exchange.codec)
    assert 0 < encode < 1e-6
    assert 0 < decode < 1e-6
    assert with_codecs(known, designs, WORK) == known
    assert known.codec_secs(None) == (0.0, 0.0)
    assert set(known.codecs) == {repr(Int8()), repr(Cast("bfloat16"))}
