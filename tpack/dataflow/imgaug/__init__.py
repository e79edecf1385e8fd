"""Image augmentation: random changes of images, which coordinates and boxes follow. Needs the extra ``vision``."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "base": ("Augmentor", "AugmentorList", "ImageAugmentor", "Transform", "TransformFactory", "TransformList"),
        "colors": ("Brightness", "BrightnessScale", "Clip", "Contrast", "Gamma", "Hue", "Lighting", "Saturation"),
        "crop": (
            "CenterCrop",
            "CropTransform",
            "GoogleNetRandomCropAndResize",
            "RandomCrop",
            "RandomCropRandomShape",
            "RandomCutout",
        ),
        "filters": (
            "GaussianBlur",
            "GaussianNoise",
            "JpegNoise",
            "MeanVarianceNormalize",
            "MinMaxNormalize",
            "SaltPepperNoise",
        ),
        "geometry": ("Affine", "Flip", "FlipTransform", "Rotation", "RotationAndCropValid", "Shift", "Transpose"),
        "meta": (
            "Albumentations",
            "IAAugmentor",
            "Identity",
            "MapImage",
            "RandomApplyAug",
            "RandomChooseAug",
            "RandomOrderAug",
        ),
        "paste": ("BackgroundFiller", "CenterPaste", "ConstantBackgroundFiller", "RandomPaste"),
        "photometric": ("ColorSpace", "Grayscale", "PhotometricAugmentor", "ToFloat32", "ToUint8"),
        "rand_augment": ("RandAugment",),
        "resize": ("RandomResize", "Resize", "ResizeShortestEdge", "ResizeTransform"),
    },
)
