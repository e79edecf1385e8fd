"""Text for an exchange with a codec, such as ``"power_sgd:4"``."""

from typing import Any, TypeVar

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import WIRE_DTYPES, Exchange
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_arguments, mismatch

_power_sgd = LazyModule("tpack.multi_worker.codecs.power_sgd")
_quantization = LazyModule("tpack.multi_worker.codecs.quantization")
_sparsification = LazyModule("tpack.multi_worker.codecs.sparsification")

Number = TypeVar("Number", int, float)
_POWER_SGD_START = 10
_EXPECTED = '"int8", "top_k:0.01", "power_sgd:4", "one_bit", "adasum", "bfloat16" or "float16"'


@check_arguments
def make_exchange(text: str) -> Exchange:
    """Return the exchange for a text, with error feedback where the encoding loses something.

    Args:
        text: ``"int8"``; ``"top_k:"`` with the share of numbers that is sent; ``"power_sgd:"`` with a rank, which
            begins after ten steps; ``"one_bit"``; ``"adasum"``, in place of a sum or mean; ``"bfloat16"`` or
            ``"float16"``, which round all gradients.

    Raises:
        ConfigError: Another text, or a number that is out of range.
    """
    kind, _, number = text.partition(":")
    if kind in WIRE_DTYPES and not number:
        return Exchange(wire_dtype=kind)
    if kind == "adasum" and not number:
        return Exchange(op="adasum")
    if kind in ("int8", "one_bit") and not number:
        return Exchange(codec=_quantization.Int8() if kind == "int8" else _quantization.OneBit())
    if kind == "top_k":
        return Exchange(codec=_sparsification.TopK(_number(text, number, float)))
    if kind == "power_sgd":
        return Exchange(codec=_power_sgd.PowerSGD(_number(text, number, int)), start_step=_POWER_SGD_START)
    raise ConfigError(mismatch("make_exchange", "text", text, _EXPECTED, "Exchange(codec=...) for other settings"))


def _number(text: str, number: str, kind: type[Number]) -> Number:
    try:
        return kind(number)
    except ValueError as error:
        raise ConfigError(
            mismatch("make_exchange", "text", text, f"a number after the colon, as in {_EXPECTED}")
        ) from error


def exchange_of_options(owner: object, exchange: Exchange | str, wire_dtype: str | tf.DType | None) -> Exchange:
    """Return the exchange that a trainer's arguments describe.

    Raises:
        ConfigError: Both are given, or from `make_exchange`.
    """
    if wire_dtype is not None:
        given: Any = wire_dtype
        raise ConfigError(mismatch(owner, "wire_dtype", given, "None with exchange", "Exchange(wire_dtype=...)"))
    return make_exchange(exchange) if isinstance(exchange, str) else exchange
