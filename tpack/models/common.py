"""What makes layers, under the module name that scripts import it from.

The code is in ``tpack.models.registry`` and ``tpack.models.variables``.
"""

from tpack.models.registry import disable_layer_logging, get_registered_layer, layer_register
from tpack.models.variables import VariableHolder

__all__ = ["VariableHolder", "disable_layer_logging", "get_registered_layer", "layer_register"]
