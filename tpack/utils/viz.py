"""The public names for looking at images, under the module name that scripts import them from.

Their code is in modules of their own. What opens windows is not offered: the OpenCV of the extra ``vision`` has none.
"""

from tpack.utils.drawing import draw_boxes, draw_text, intensity_to_rgb
from tpack.utils.dump_images import dump_dataflow_images
from tpack.utils.patches import gen_stack_patches, stack_patches

__all__ = [
    "draw_boxes",
    "draw_text",
    "dump_dataflow_images",
    "gen_stack_patches",
    "intensity_to_rgb",
    "stack_patches",
]
