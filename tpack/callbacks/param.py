"""Hyper-parameters and the callbacks that set them, under the module name that scripts import them from.

Their code is in ``tpack.callbacks.hyper_param`` and ``tpack.callbacks.param_setters``.
"""

from tpack.callbacks.hyper_param import GraphVarParam, HyperParam, ObjAttrParam
from tpack.callbacks.param_setters import (
    HumanHyperParamSetter,
    HyperParamSetter,
    HyperParamSetterWithFunc,
    ScheduledHyperParamSetter,
    StatMonitorParamSetter,
)

__all__ = [
    "GraphVarParam",
    "HumanHyperParamSetter",
    "HyperParam",
    "HyperParamSetter",
    "HyperParamSetterWithFunc",
    "ObjAttrParam",
    "ScheduledHyperParamSetter",
    "StatMonitorParamSetter",
]
