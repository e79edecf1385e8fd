"""Train residual networks on ImageNet (ILSVRC 2012), by the usual recipe.

    python examples/imagenet/resnet.py --data /data/ilsvrc12 --towers 8 --batch 512
    python examples/imagenet/resnet.py --data /data/ilsvrc12 --towers 8 --depth 101 --variant se --resume
    tpack launch --hosts a,b examples/imagenet/resnet.py --data /data/ilsvrc12 --trainer cluster --towers 8 --batch 1024
    python examples/imagenet/resnet.py --data /data/ilsvrc12 --eval --load train_log/imagenet --towers 8
    python examples/imagenet/resnet.py --load train_log/imagenet --predict cat.jpg dog.jpg
    python examples/imagenet/resnet.py --load train_log/imagenet --export exported/1
    python examples/imagenet/resnet.py --fake --towers 8 --batch 512    # how fast, without any data

DIR holds the unpacked archives: `train` with a directory for each synset, and `val`, with all images in one directory
or sorted by synset. Images in one directory need the lists of caffe_ilsvrc12.tar.gz, see --meta.

The recipe: batches of 256, or any size with the learning rate in proportion to it (0.1 for 256) and a warm-up over five
epochs; a tenth of it from epochs 30, 60 and 90 on; Nesterov momentum 0.9, weight decay 1e-4, label smoothing 0.1; crops
of random place and shape, random colours, flips. The log tells the throughput of every epoch, and the errors of the
first guess and of the first five over all validation images, each of which counts once. A run that is continued with
--resume goes on with the very next batch. Needs the extra `vision`.
"""

from imagenet_recipe import Recipe, make_parser, run
from resnet_model import BLOCKS, BOTTLENECK_DEPTH, VARIANTS, ResNet

RECIPE = Recipe(lambda options: ResNet(options.depth, options.variant, options.classes, options.data_format))


def main(argv=None):
    parser = make_parser(RECIPE, __doc__)
    parser.add_argument("--data-format", default="channels_last", choices=("channels_last", "channels_first"))
    parser.add_argument("--depth", type=int, default=50, choices=BLOCKS)
    parser.add_argument(
        "--variant", "--mode", default="resnet", choices=VARIANTS, help="what the blocks are (default: resnet)"
    )
    options = parser.parse_args(argv)
    if options.variant == "resnext" and options.depth < BOTTLENECK_DEPTH:
        parser.error(f"resnext has a depth of {BOTTLENECK_DEPTH} or more, not {options.depth}")
    return run(RECIPE, parser, options)


if __name__ == "__main__":
    main()
