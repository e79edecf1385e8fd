"""Programs of the second round: first run by `tests.trials.outside_code` after ``tpack migrate`` alone.

See `tests.trials.outside_recipe`.
"""

from tests.trials.outside_data import cifar, folders, idx_digits, images, rows, sentences, text, zipped_images
from tests.trials.outside_recipe import Edit, Recipe
from tests.trials.outside_recipes_tensorpack import NO_GPU, one_epoch_of

TUTORIAL_DIGITS = (idx_digits("MNIST_data", ending=".gz"),)
STORIES = [
    line
    for _ in range(100)
    for line in ("1 Mary moved to the bathroom.", "2 John went to the hallway.", "3 Where is Mary? \tbathroom\t1")
]
BIRDS = [f"{index}.jpg {index} 8 8 80 80" for index in range(16)]
FEW_TESTS = (r"= (get_data\('test'.*\))$", r"= FixedSizeData(\1, 2)")
# A command that trains the class of DeepFM on random indices.
DEEP_FM = """import numpy as np
from DeepFM import DeepFM
rng = np.random.RandomState(0)
model = DeepFM(feature_size=20, field_size=4, embedding_size=4, epoch=4, batch_size=16, batch_norm=1)
model.fit(rng.randint(0, 20, (64, 4)).tolist(), np.ones((64, 4)).tolist(), rng.randint(0, 2, 64).tolist())
"""

TENSORPACK = (
    Recipe(
        "WoojunePark/Learned-Quantized-FSRCNN-Tensorpack",
        "FSRCNN with learned quantization",
        "fsrcnn.py",
        steps=6,
        data=(zipped_images("train.zip", 16, (120, 120)), text("imageio.py", "")),
        edits=(
            Edit("config.py", r"^(TRAIN|VAL)_DATA_ZIP_DIR = .*", r"\1_DATA_ZIP_DIR = 'train.zip'"),
            Edit("config.py", r"^LOG_DIR = .*", "LOG_DIR = 'log'"),
            Edit("config.py", r"^BATCH_SIZE = 64", "BATCH_SIZE = 2"),
            Edit("config.py", r"^MAX_EPOCH = 900000", "MAX_EPOCH = 2"),
            Edit("config.py", r"^FSRCNN_D = 56", "FSRCNN_D = 8"),
            Edit("fsrcnn.py", NO_GPU, "pass", "no GPU"),
            Edit("learned_quantization.py", r"in_channel / split", "in_channel // split", "Python 2"),
            Edit("fsrcnn.py", r"self\.(width|height)\*0\.5", r"self.\1 // 2", "shapes"),
        ),
    ),
    Recipe(
        "ppwwyyxx/FRN-on-common-ImageNet-baseline",
        "ResNet-50 with filter response normalization",
        "imagenet-resnet.py --fake --batch 2 -d 50",
        steps=6,
        edits=(
            Edit("imagenet-resnet.py", r"steps_per_epoch = 100", "steps_per_epoch = 3"),
            Edit("imagenet-resnet.py", r"max_epoch=100", "max_epoch=2"),
            Edit("imagenet-resnet.py", r"64, 224, 224, 3\], \[64", "2, 64, 64, 3], [2"),
            Edit("imagenet_utils.py", r"image_shape = 224", "image_shape = 64"),
        ),
    ),
    Recipe(
        "bairdzhang/ResNet-base",
        "ResNet-18; ResNet on CIFAR-10",
        "imagenet-resnet.py --fake --batch 2 -d 18",
        steps=6,
        edits=(
            *one_epoch_of("imagenet-resnet.py", r"steps_per_epoch=100 if.*batch(?=,)", r"max_epoch=105"),
            Edit("imagenet-resnet.py", r"224, 224, 3\], \[batch", "64, 64, 3], [batch"),
            Edit("imagenet_utils.py", r"image_shape = 224", "image_shape = 64"),
        ),
    ),
    Recipe(
        "bairdzhang/ResNet-base",
        "a preactivation ResNet on CIFAR-10 with mixed examples",
        "cifar10-preact18-mixup.py",
        part="mixup",
        steps=6,
        data=(cifar(),),
        edits=(
            *one_epoch_of("cifar10-preact18-mixup.py", r"steps_per_epoch=len\(dataset_train\)", r"max_epoch=200"),
            Edit("cifar10-preact18-mixup.py", r"^BATCH_SIZE = \d+", "BATCH_SIZE = 4"),
            Edit("cifar10-preact18-mixup.py", *FEW_TESTS),
            Edit("cifar10-preact18-mixup.py", NO_GPU, "pass", "no GPU"),
        ),
    ),
    Recipe(
        "qinenergy/webvision-2.0-benchmarks",
        "ResNet-18 for 5,000 classes",
        "imagenet-resnet.py --fake --batch 2 -d 18",
        steps=6,
        edits=(
            *one_epoch_of("imagenet-resnet.py", r"steps_per_epoch=100 if.*batch(?=,)", r"max_epoch=110"),
            Edit("imagenet-resnet.py", r"64, 224, 224, 3\], \[64", "2, 64, 64, 3], [2"),
            Edit("imagenet_utils.py", r"image_shape = 224", "image_shape = 64"),
        ),
    ),
    Recipe(
        "HelenR6/ImageNet-Adversarial-Training",
        "a ResNet against an attack in a while loop",
        "main.py --fake --batch 2 --attack-iter 2",
        commit="a9b7704fba52",
        steps=6,
        edits=(
            Edit("main.py", r"224, 224, 3\], \[batch", "64, 64, 3], [batch"),
            Edit("third_party/imagenet_utils.py", r"image_shape = 224", "image_shape = 64"),
            Edit("main.py", r"steps_per_epoch = 50", "steps_per_epoch = 3"),
            Edit("main.py", r"max_epoch = 110", "max_epoch = 2"),
        ),
        seconds=420,
    ),
    Recipe(
        "T1anZhenYu/tensorpack",
        "DoReFa-Net on CIFAR-10",
        "cifar-simon-origin.py --epoches 2",
        folder="examples/DoReFa-Net-eidt",
        steps=6,
        data=(cifar("examples/DoReFa-Net-eidt/.cifar10_data"),),
        edits=(
            Edit("examples/DoReFa-Net-eidt/cifar-simon-origin.py", r"BATCH_SIZE = 128", "BATCH_SIZE = 4"),
            Edit(
                "examples/DoReFa-Net-eidt/cifar-simon-origin.py",
                r"= (get_data\('test'.*\))$",
                r"= FixedSizeData(\1, 2)",
            ),
            Edit("examples/DoReFa-Net-eidt/cifar-simon-origin.py", r"max_epoch=", "steps_per_epoch=3, max_epoch="),
        ),
    ),
    Recipe(
        "XinDongol/tensorpack",
        "a quantized network on CIFAR-10",
        "cifar_simon.py --epoches 2",
        folder="examples/DoReFa-Net",
        steps=6,
        data=(cifar("cifar10_data"),),
        edits=(
            Edit("examples/DoReFa-Net/cifar_simon.py", r"\.\./\.\./\.\./cifar10_data", "../../cifar10_data"),
            Edit("examples/DoReFa-Net/cifar_simon.py", r"\.\./\.\./\.\./runs", "../../runs"),
            Edit("examples/DoReFa-Net/cifar_simon.py", r"BATCH_SIZE = 128", "BATCH_SIZE = 4"),
            Edit("examples/DoReFa-Net/cifar_simon.py", *FEW_TESTS),
            Edit("examples/DoReFa-Net/cifar_simon.py", r"max_epoch=", "steps_per_epoch=3, max_epoch="),
        ),
    ),
    Recipe(
        "czhu95/ternarynet",
        "ResNet-20 with ternary weights, of TensorFlow 0.12",
        "tw-cifar10-resnet.py",
        folder="examples/Ternary-Net",
        commit="1a67251f7f5a",
        steps=6,
        data=(cifar(),),
        edits=(
            Edit("examples/Ternary-Net/tw-cifar10-resnet.py", r"step_per_epoch=step_per_epoch", "step_per_epoch=3"),
            Edit("examples/Ternary-Net/tw-cifar10-resnet.py", *FEW_TESTS),
            Edit("examples/Ternary-Net/tw-cifar10-resnet.py", r"max_epoch=400", "max_epoch=2"),
            Edit("examples/Ternary-Net/tw-cifar10-resnet.py", r"BatchData\(ds, 128", "BatchData(ds, 8"),
        ),
    ),
    Recipe(
        "junsukchoe/ADL",
        "ResNet-50-SE that drops what it attends to",
        "train.py --gpu 0 --data_dir data --dataset_name CUB --method_name ADL --arch_name resnet50_se --log_dir out"
        " --batch_size 2 --gating_position 31 41 5 --final_size 64 --epoch 2 --is_data_format_nhwc",
        steps=6,
        commit="dab2e78163bd",
        data=(
            images("data/CUB/images/{}.jpg", 16, (96, 96)),
            *(
                text(f"labels/CUB/{each}.txt", [f"{n}.jpg {n} 8 8 80 80" for n in range(16)])
                for each in ("train", "val")
            ),
        ),
        edits=(
            Edit("train.py", r"return int\(steps_per_epoch\)", "return 3"),
            Edit("train.py", r"^    evaluate_wsol\(args, model, interval=True\)", "    pass"),
            Edit("*.py", r"\bget_nr_gpu\(\)", "max(get_nr_gpu(), 1)", "no GPU"),
        ),
    ),
)

TENSORFLOW_1 = (
    Recipe(
        "PetarV-/GAT",
        "a graph attention network, on Cora",
        "execute_cora.py",
        steps=4,
        edits=(Edit("execute_cora.py", r"nb_epochs = 100000", "nb_epochs = 4"),),
    ),
    Recipe(
        "carpedm20/lstm-char-cnn-tensorflow",
        "an LSTM on convolutions of characters",
        "main.py --epoch 1 --batch_size 8 --seq_length 5 --word_embed_dim 16"
        " --feature_maps [5,10,15,20,20,20,20] --max_word_length 12",
        steps=6,
        data=(folders("checkpoint"), *(sentences(f"data/ptb/{part}.txt", 60) for part in ("train", "valid", "test"))),
    ),
    Recipe(
        "domluna/memn2n",
        "a memory network that answers questions",
        "single.py --data_dir stories --epochs 2 --batch_size 8",
        steps=6,
        data=tuple(text(f"stories/qa1_single_{part}.txt", STORIES) for part in ("train", "test")),
        edits=(Edit("data_utils.py", r"\(\\W\+\)\?", r"(\\W+)", "Python 3.7"),),
    ),
    Recipe(
        "carpedm20/MemN2N-tensorflow",
        "a memory network that models language",
        "main.py --nepoch 1 --batch_size 8 --edim 16 --lindim 8 --nhop 2 --mem_size 10",
        steps=6,
        data=tuple(sentences(f"data/ptb.{part}.txt", 40) for part in ("train", "valid", "test")),
    ),
    Recipe(
        "carpedm20/NTM-tensorflow",
        "a neural Turing machine that copies",
        "main.py --is_train True --epoch 6 --max_length 3 --test_max_length 3 --controller_dim 16",
        steps=6,
        data=(folders("checkpoint"),),
    ),
    Recipe(
        "igul222/improved_wgan_training",
        "WGAN-GP on eight Gaussians",
        "gan_toy.py",
        steps=12,
        python_2=("*.py", "tflib/*.py", "tflib/ops/*.py"),
        edits=(Edit("gan_toy.py", r"^DIM = 512", "DIM = 16"), Edit("gan_toy.py", r"^ITERS = 100000", "ITERS = 4")),
    ),
    Recipe(
        "hwalsuklee/tensorflow-mnist-VAE",
        "a variational autoencoder of digits",
        "run_main.py --dim_z 4 --num_epochs 1 --n_hidden 16 --batch_size 5000",
        steps=6,
        data=(idx_digits("data", ending=".gz"),),
    ),
    Recipe(
        "ChenglongChen/tensorflow-DeepFM",
        "DeepFM as an estimator of scikit-learn",
        "clicks.py",
        steps=6,
        data=(text("clicks.py", DEEP_FM), text("yellowfin.py", "class YFOptimizer: pass\n")),
    ),
    Recipe(
        "kang205/SASRec",
        "what follows in sequences, with self-attention",
        "main.py --dataset clicks --train_dir out --maxlen 8 --hidden_units 8 --batch_size 8 --num_epochs 2",
        steps=6,
        python_2=("*.py",),
        edits=(Edit("main.py", r"/ args\.batch_size", "// args.batch_size", "Python 2"),),
        data=(text("data/clicks.txt", rows(480, lambda rng, n: [n // 10 + 1, rng.integers(1, 300)], separator=" ")),),
    ),
    Recipe(
        "openai/pixel-cnn",
        "PixelCNN++ on CIFAR-10, two towers made by hand",
        "train.py -i datasets/cifar10_data -o out -q 1 -n 4 -m 2 -b 2 -u 2 -g 2 -x 1 -t 1",
        commit="bbc15688dd37",
        steps=4,
        data=(cifar("datasets/cifar10_data/cifar-10-python"), folders("out")),
        edits=(Edit("train.py", r"'/gpu:(%d' % i|0')", "'/cpu:0'", "devices"),),
        seconds=420,
    ),
    Recipe(
        "naturomics/CapsNet-Tensorflow",
        "a network of capsules, under a Supervisor",
        "main.py --batch_size 4 --epoch 1 --num_threads 1",
        steps=4,
        data=(idx_digits("data/mnist"),),
        seconds=420,
    ),
    Recipe(
        "nlintz/TensorFlow-Tutorials",
        "a perceptron with dropout, on digits",
        "04_modern_net.py",
        part="modern_net",
        steps=12,
        data=TUTORIAL_DIGITS,
    ),
    Recipe(
        "nlintz/TensorFlow-Tutorials", "an LSTM on digits", "07_lstm.py", part="lstm", steps=12, data=TUTORIAL_DIGITS
    ),
    *(
        Recipe(
            "wiseodd/generative-models",
            trains,
            f"{name}_tensorflow.py",
            part=name,
            folder=folder,
            steps=12,
            data=TUTORIAL_DIGITS,
            edits=(Edit(f"{folder}/{name}_tensorflow.py", r"\.\./\.\./MNIST_data", "../../MNIST_data"),),
        )
        for trains, folder, name in (
            ("a variational autoencoder of digits", "VAE/vanilla_vae", "vae"),
            ("an improved Wasserstein GAN of digits", "GAN/improved_wasserstein_gan", "wgan_gp"),
        )
    ),
    Recipe(
        "tegg89/SRCNN-Tensorflow",
        "SRCNN, which enlarges pictures",
        "main.py --epoch 1 --batch_size 8 --stride 40",
        steps=6,
        data=(images("Train/{}.bmp", 6, (120, 120)),),
    ),
    Recipe(
        "YunYang1994/tensorflow-yolov3",
        "YOLOv3",
        "train.py",
        commit="03cb272af2e2",
        steps=3,
        data=(
            images("pictures/{}.jpg", 4, (96, 96)),
            *(
                text(f"data/dataset/voc_{part}.txt", [f"pictures/{n}.jpg 8,8,60,60,1" for n in range(4)])
                for part in ("train", "test")
            ),
        ),
        edits=(
            Edit("core/config.py", r"INPUT_SIZE( *)= \[.*\]", r"INPUT_SIZE\1= [64]"),
            Edit("core/config.py", r"INPUT_SIZE( *)= 544", r"INPUT_SIZE\1= 64"),
            Edit("core/config.py", r"BATCH_SIZE( *)= 6", r"BATCH_SIZE\1= 2"),
            Edit("core/config.py", r"_EPOCHS( *)= \d+", r"_EPOCHS\1= 2"),
        ),
        seconds=600,
    ),
)

RECIPES = (*TENSORPACK, *TENSORFLOW_1)
