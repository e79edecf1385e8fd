import pytest

from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.memory import ErrorFeedback
from tpack.multi_worker.codecs.names import exchange_of_options, make_exchange
from tpack.multi_worker.codecs.power_sgd import PowerSGD
from tpack.multi_worker.codecs.quantization import Int8, OneBit
from tpack.multi_worker.codecs.sparsification import TopK


@pytest.mark.parametrize(
    ("text", "exchange"),
    [
        ("int8", Exchange(codec=Int8(), memory=ErrorFeedback())),
        ("one_bit", Exchange(codec=OneBit(), memory=ErrorFeedback())),
        ("top_k:0.01", Exchange(codec=TopK(0.01), memory=ErrorFeedback())),
        ("top_k:1", Exchange(codec=TopK(1), memory=None)),
        ("power_sgd:4", Exchange(codec=PowerSGD(4), memory=ErrorFeedback(), start_step=10)),
        ("bfloat16", Exchange("bfloat16")),
        ("float16", Exchange("float16")),
        ("adasum", Exchange(op="adasum")),
    ],
)
def test_text_makes_an_exchange_with_error_feedback_where_something_is_lost(text, exchange):
    assert make_exchange(text) == exchange
    assert exchange_of_options("Trainer", text, None) == exchange


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int4", "make_exchange got text='int4': expected \"int8\", .*; use Exchange"),
        ("int8:3", "make_exchange got text='int8:3'"),
        ("top_k", "text='top_k': expected a number after the colon"),
        ("power_sgd:many", "text='power_sgd:many': expected a number after the colon"),
        ("top_k:2", "TopK got ratio=2.0"),
    ],
)
def test_other_texts_are_refused(text, words):
    with pytest.raises(ConfigError, match=words):
        make_exchange(text)


def test_options_of_a_trainer_are_one_exchange():
    given = Exchange(codec=Int8())
    assert exchange_of_options("Trainer", given, None) is given
    with pytest.raises(ConfigError, match="Trainer got wire_dtype='float16': expected None with exchange; use Exch"):
        exchange_of_options("Trainer", "int8", "float16")
