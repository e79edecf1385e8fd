"""The public names for gradient processors, in the one module where scripts look for them."""

from tpack.tfutils.gradient_changes import FilterNoneGrad, GlobalNormClip, MapGradient, ScaleGradient
from tpack.tfutils.gradient_processor import GradientProcessor
from tpack.tfutils.gradient_watches import CheckGradient, PrintGradient, SummaryGradient

__all__ = [
    "CheckGradient",
    "FilterNoneGrad",
    "GlobalNormClip",
    "GradientProcessor",
    "MapGradient",
    "PrintGradient",
    "ScaleGradient",
    "SummaryGradient",
]
