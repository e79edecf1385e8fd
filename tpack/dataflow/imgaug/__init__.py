"""Image augmentation: random changes of images, which coordinates and boxes follow. Needs the extra ``vision``."""

from tpack.dataflow.imgaug.base import AugmentorList, ImageAugmentor, Transform, TransformFactory, TransformList
from tpack.dataflow.imgaug.colors import Brightness, BrightnessScale, Clip, Contrast, Gamma, Hue, Lighting, Saturation
from tpack.dataflow.imgaug.crop import (
    CenterCrop,
    CropTransform,
    GoogleNetRandomCropAndResize,
    RandomCrop,
    RandomCropRandomShape,
    RandomCutout,
)
from tpack.dataflow.imgaug.filters import (
    GaussianBlur,
    GaussianNoise,
    JpegNoise,
    MeanVarianceNormalize,
    MinMaxNormalize,
    SaltPepperNoise,
)
from tpack.dataflow.imgaug.geometry import Affine, Flip, FlipTransform, Rotation, RotationAndCropValid, Shift, Transpose
from tpack.dataflow.imgaug.meta import (
    Albumentations,
    IAAugmentor,
    Identity,
    MapImage,
    RandomApplyAug,
    RandomChooseAug,
    RandomOrderAug,
)
from tpack.dataflow.imgaug.paste import BackgroundFiller, CenterPaste, ConstantBackgroundFiller, RandomPaste
from tpack.dataflow.imgaug.photometric import ColorSpace, Grayscale, PhotometricAugmentor, ToFloat32, ToUint8
from tpack.dataflow.imgaug.resize import RandomResize, Resize, ResizeShortestEdge, ResizeTransform
from tpack.utils.lazy import submodules_of

# The name that scripts know besides.
Augmentor = ImageAugmentor

__getattr__ = submodules_of(__name__)

__all__ = [
    "Affine",
    "Albumentations",
    "Augmentor",
    "AugmentorList",
    "BackgroundFiller",
    "Brightness",
    "BrightnessScale",
    "CenterCrop",
    "CenterPaste",
    "Clip",
    "ColorSpace",
    "ConstantBackgroundFiller",
    "Contrast",
    "CropTransform",
    "Flip",
    "FlipTransform",
    "Gamma",
    "GaussianBlur",
    "GaussianNoise",
    "GoogleNetRandomCropAndResize",
    "Grayscale",
    "Hue",
    "IAAugmentor",
    "Identity",
    "ImageAugmentor",
    "JpegNoise",
    "Lighting",
    "MapImage",
    "MeanVarianceNormalize",
    "MinMaxNormalize",
    "PhotometricAugmentor",
    "RandomApplyAug",
    "RandomChooseAug",
    "RandomCrop",
    "RandomCropRandomShape",
    "RandomCutout",
    "RandomOrderAug",
    "RandomPaste",
    "RandomResize",
    "Resize",
    "ResizeShortestEdge",
    "ResizeTransform",
    "Rotation",
    "RotationAndCropValid",
    "SaltPepperNoise",
    "Saturation",
    "Shift",
    "ToFloat32",
    "ToUint8",
    "Transform",
    "TransformFactory",
    "TransformList",
    "Transpose",
]
