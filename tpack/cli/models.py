"""The shapes of the gradients of well-known models, so that a reduction can be measured without building the model."""

Shape = tuple[int, ...]

_RESNET50_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""The width of the 3 x 3 convolutions, and the number of blocks."""


def resnet50_shapes() -> tuple[Shape, ...]:
    """Return the shapes of the 161 trainable variables of ResNet-50 in the order of the model: 25.6 M elements.

    Source:
        He et al., "Deep Residual Learning for Image Recognition", https://arxiv.org/abs/1512.03385
    """
    shapes: list[Shape] = [*_convolution(7, 3, 64)]
    channels = 64
    for width, blocks in _RESNET50_STAGES:
        for _ in range(blocks):
            if channels != 4 * width:
                shapes += _convolution(1, channels, 4 * width)
            shapes += _convolution(1, channels, width)
            shapes += _convolution(3, width, width)
            shapes += _convolution(1, width, 4 * width)
            channels = 4 * width
    return (*shapes, (channels, 1000), (1000,))


def _convolution(size: int, inputs: int, outputs: int) -> tuple[Shape, ...]:
    """Return the shapes of a convolution's weights, and of the scale and the offset of its batch normalisation."""
    return (size, size, inputs, outputs), (outputs,), (outputs,)


MODELS = {"resnet50": resnet50_shapes}
"""The models that the command line knows by name."""
