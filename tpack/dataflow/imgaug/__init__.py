"""Image augmentation: random changes of images, which coordinates and boxes follow. Needs the extra ``vision``."""

from tpack.dataflow.imgaug.augmentor_list import AugmentorList
from tpack.dataflow.imgaug.base import ImageAugmentor
from tpack.dataflow.imgaug.color import Hue, Lighting, Saturation
from tpack.dataflow.imgaug.colors import Brightness, BrightnessScale, Contrast
from tpack.dataflow.imgaug.convert import ColorSpace, Grayscale, ToFloat32, ToUint8
from tpack.dataflow.imgaug.crop import CenterCrop, CropTransform, RandomCrop, RandomCropRandomShape
from tpack.dataflow.imgaug.cutout import RandomCutout
from tpack.dataflow.imgaug.external import Albumentations, IAAugmentor
from tpack.dataflow.imgaug.filters import GaussianBlur
from tpack.dataflow.imgaug.flip import Flip, FlipTransform, Transpose
from tpack.dataflow.imgaug.geometry import Affine, Shift
from tpack.dataflow.imgaug.meta import Identity, MapImage, RandomApplyAug, RandomChooseAug, RandomOrderAug
from tpack.dataflow.imgaug.noise import GaussianNoise, JpegNoise, SaltPepperNoise
from tpack.dataflow.imgaug.normalize import MeanVarianceNormalize, MinMaxNormalize
from tpack.dataflow.imgaug.paste import BackgroundFiller, CenterPaste, ConstantBackgroundFiller, RandomPaste
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor
from tpack.dataflow.imgaug.random_resized_crop import GoogleNetRandomCropAndResize
from tpack.dataflow.imgaug.resize import RandomResize, Resize, ResizeShortestEdge, ResizeTransform
from tpack.dataflow.imgaug.rotation import Rotation, RotationAndCropValid
from tpack.dataflow.imgaug.tone import Clip, Gamma
from tpack.dataflow.imgaug.transform import Transform
from tpack.dataflow.imgaug.transform_factory import TransformFactory
from tpack.dataflow.imgaug.transform_list import TransformList

# The name that scripts know besides.
Augmentor = ImageAugmentor

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
