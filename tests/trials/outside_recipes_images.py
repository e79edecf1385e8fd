"""Programs that train on images: generators, classifiers, detectors. See `tests.trials.outside_recipe`."""

from tests.trials.outside_data import folders, idx_digits, images, point_clouds, text, voc_annotations
from tests.trials.outside_recipe import Edit, Recipe

TWO_SIDES = ("trainA", "trainB", "testA", "testB")
DIGITS = '__import__("tpack.tf1.input_data", fromlist=["x"]).read_data_sets("digits")'

GENERATIVE = (
    Recipe(
        "carpedm20/DCGAN-tensorflow",
        "a GAN of digits with labels",
        "main.py --dataset=mnist --train --epoch=1 --batch_size=16 --input_height=28 --output_height=28"
        " --sample_freq=4 --ckpt_freq=4 --out_name=run",
        commit="62c9a2a7f745",
        part="digits",
        steps=12,
        data=(idx_digits("data/mnist"),),
    ),
    *(
        Recipe(
            "hwalsuklee/tensorflow-generative-model-collections",
            f"{kind}, on digits",
            f"main.py --dataset mnist --gan_type {kind} --epoch 1 --batch_size 64",
            commit="3abde8a9bcfe",
            part=kind,
            steps=6,
            data=(idx_digits("data/mnist", ending=".gz"),),
        )
        for kind in ("GAN", "WGAN_GP", "infoGAN", "BEGAN", "VAE")
    ),
    Recipe(
        "xhujoy/CycleGAN-tensorflow",
        "CycleGAN",
        "main.py --dataset_dir=shapes --epoch 1 --load_size 72 --fine_size 64 --ngf 8 --ndf 8 --print_freq 100",
        commit="bd19873a2eca",
        steps=8,
        data=tuple(images(f"datasets/shapes/{side}/{{:02d}}.jpg", 6, (72, 72)) for side in TWO_SIDES),
    ),
    Recipe(
        "affinelayer/pix2pix-tensorflow",
        "pix2pix",
        "pix2pix.py --mode train --output_dir out --max_epochs 1 --input_dir pairs --ngf 4 --ndf 4 --summary_freq 3"
        " --display_freq 3 --save_freq 3",
        commit="0f2174424356",
        steps=6,
        data=(images("pairs/{:02d}.png", 6, (512, 256)),),
    ),
    Recipe(
        "affinelayer/pix2pix-tensorflow",
        "pix2pix with separable convolutions",
        "pix2pix.py --mode train --output_dir out --max_epochs 1 --input_dir pairs --ngf 4 --ndf 4 --separable_conv"
        " --batch_size 2",
        commit="0f2174424356",
        part="separable",
        steps=3,
        data=(images("pairs/{:02d}.png", 6, (512, 256)),),
    ),
    Recipe(
        "taki0112/UGATIT",
        "U-GAT-IT",
        "main.py --phase train --light True --dataset shapes --epoch 1 --iteration 3 --ch 4 --img_size 64 --n_dis 4"
        " --print_freq 2 --save_freq 2",
        commit="d508e8f5188e",
        steps=6,
        data=tuple(images(f"dataset/shapes/{side}/{{:02d}}.jpg", 6, (64, 64)) for side in TWO_SIDES),
    ),
    Recipe(
        "taki0112/StarGAN-Tensorflow",
        "StarGAN",
        "main.py --phase train --dataset celebA --epoch 1 --iteration 6 --batch_size 2 --ch 4 --img_size 64 --n_dis 4"
        " --n_critic 2 --print_freq 3 --save_freq 3",
        commit="277bfc332346",
        steps=8,
        data=(
            images("dataset/celebA/train/{:06d}.jpg", 12, (64, 64)),
            images("dataset/celebA/test/{:06d}.jpg", 12, (64, 64)),
            text(
                "dataset/celebA/list_attr_celeba.txt",
                [
                    "2012",
                    "Black_Hair Blond_Hair Brown_Hair Male Young",
                    *(
                        f"{n % 12:06d}.jpg {' '.join('1' if n >> k & 1 else '-1' for k in range(5))}"
                        for n in range(2012)
                    ),
                ],
            ),
        ),
    ),
)

VISION = (
    Recipe(
        "shu-yusa/tensorflow-mirrored-strategy-sample",
        "a CNN by MirroredStrategy",
        "cnn_mnist.py",
        commit="5ff173d497c2",
        steps=20,
        data=(idx_digits("digits", ending=".gz"),),
        edits=(
            Edit("cnn_mnist.py", r"tf\.contrib\.learn\.datasets\.load_dataset\(\"mnist\"\)", DIGITS, "data sets"),
            Edit("cnn_mnist.py", r"steps=10000", "steps=20"),
            Edit("cnn_mnist.py", r'"/tmp/mnist_convnet_model"', '"model"'),
        ),
    ),
    Recipe(
        "argman/EAST",
        "a finder of text in slim, towers made by hand",
        "multigpu_train.py --gpu_list=0,1 --input_size=128 --batch_size_per_gpu=2 --checkpoint_path=out/"
        " --training_data_path=pictures --num_readers=1 --max_steps=3 --save_checkpoint_steps=2"
        " --save_summary_steps=2 --min_text_size=2",
        commit="dca414de39a3",
        steps=3,
        data=(
            images("pictures/{}.jpg", 4, (160, 120)),
            *(text(f"pictures/{n}.txt", ["20,20,130,20,130,100,20,100,word"]) for n in range(4)),
        ),
    ),
    Recipe(
        "cs230-stanford/cs230-code-examples",
        "a classifier of images",
        "train.py --data_dir data --model_dir experiments/base_model",
        commit="478e747b1c8b",
        part="vision",
        folder="tensorflow/vision",
        steps=6,
        edits=(Edit("tensorflow/vision/experiments/base_model/params.json", r'"batch_size": \d+', '"batch_size": 4'),),
        data=tuple(
            images(f"tensorflow/vision/data/{kind}_signs/{label}_{{}}.jpg", 4, (64, 64))
            for kind in ("train", "dev")
            for label in range(6)
        ),
    ),
    *(
        Recipe(
            "davidsandberg/facenet",
            f"faces, {name}",
            f"src/train_softmax.py --data_dir faces --model_def models.{name} --image_size {size} --embedding_size 16"
            " --batch_size 4 --epoch_size 3 --max_nrof_epochs 2 --logs_base_dir logs --models_base_dir out"
            " --weight_decay 5e-5 --center_loss_factor 0.1 --random_flip --keep_probability 0.8 --learning_rate 0.01"
            " --optimizer ADAM --nrof_preprocess_threads 1 --validation_set_split_ratio 0.2",
            part=name,
            commit="096ed770f163",
            steps=6,
            seconds=600,
            data=tuple(images(f"faces/p{person}/p{person}_{{:04d}}.png", 5, (182, 182)) for person in range(4)),
        )
        for name, size in (("squeezenet", 160), ("inception_resnet_v1", 160))
    ),
    Recipe(
        "balancap/SSD-Tensorflow",
        "a detector in slim, two clones by model_deploy",
        "train_ssd_network.py --train_dir=logs --dataset_dir=tfrecords --dataset_name=pascalvoc_2007"
        " --dataset_split_name=train --model_name=ssd_300_vgg --batch_size=1 --num_clones=2 --clone_on_cpu=true"
        " --max_number_of_steps=3 --log_every_n_steps=1 --num_readers=1 --num_preprocessing_threads=1",
        steps=3,
        before=(
            "tf_convert_data.py --dataset_name=pascalvoc --dataset_dir=VOC/ --output_name=voc_2007_train"
            " --output_dir=tfrecords",
        ),
        data=(folders("tfrecords", "logs"), *voc_annotations("VOC", 6, (320, 240))),
        edits=(
            Edit(
                "datasets/pascalvoc_to_tfrecords.py",
                r"FastGFile\(filename, 'r'\)",
                "FastGFile(filename, 'rb')",
                "Python 2",
            ),
            Edit(
                "tf_extended/tensors.py",
                r"^from .* import set_ops$",
                "from tensorflow.python.ops import sets_impl as set_ops",
                "moved",
            ),
        ),
    ),
    Recipe(
        "wizyoung/YOLOv3_TensorFlow",
        "a detector in slim",
        "train.py",
        commit="8776cf7b2531",
        steps=4,
        data=(
            images("pictures/{:03d}.jpg", 4, (128, 96)),
            *(
                text(f"data/my_data/{kind}.txt", [f"{n} pictures/{n:03d}.jpg 128 96 0 10 10 60 70" for n in range(4)])
                for kind in ("train", "val")
            ),
            folders("checkpoint", "data/logs"),
        ),
        edits=(
            Edit("args.py", r"img_size = \[416, 416\]", "img_size = [64, 64]"),
            Edit("args.py", r"multi_scale_train = True", "multi_scale_train = False"),
            Edit("args.py", r"batch_size = 6", "batch_size = 2"),
            Edit("args.py", r"total_epoches = 100", "total_epoches = 2"),
            Edit("train.py", r"saver_to_restore.restore\(sess, args.restore_path\)", "pass"),
        ),
    ),
    Recipe(
        "charlesq34/pointnet",
        "a classifier of point clouds",
        "train.py --num_point 64 --max_epoch 1 --batch_size 4",
        commit="2618f72bc1a0",
        steps=3,
        data=point_clouds("data/modelnet40_ply_hdf5_2048"),
        edits=(Edit("provider.py", r"f\['(\w+)'\]\[:\]", r"f['\1'][:]"),),
    ),
    Recipe(
        "jakeret/tf_unet",
        "a U-Net that finds circles",
        "scripts/launcher.py",
        commit="0dcdf2ff1ebc",
        steps=8,
        python_path=(".",),
        edits=(
            Edit("scripts/launcher.py", r"nx=572, ny=572", "nx=300, ny=300"),
            Edit("scripts/launcher.py", r"training_iters=32,\s+epochs=5", "training_iters=4, epochs=2"),
            Edit("scripts/launcher.py", r"features_root=16", "features_root=4"),
        ),
    ),
    Recipe(
        "tensorflow/benchmarks",
        "ResNet-20 on two devices, replicated",
        "tf_cnn_benchmarks.py --device=cpu --data_format=NHWC --model=resnet20 --data_name=cifar10 --num_gpus=2"
        " --batch_size=4 --num_batches=4 --num_warmup_batches=1 --variable_update=replicated --train_dir=out"
        " --local_parameter_device=cpu --all_reduce_spec=pscpu",
        folder="scripts/tf_cnn_benchmarks",
        commit="8fb790792659",
        steps=5,
    ),
    Recipe(
        "MrGemy95/Tensorflow-Project-Template",
        "the template's example",
        "mains/example.py -c configs/example.json",
        steps=20,
        python_path=(".",),
        data=(
            text(
                "bunch.py",
                "class Bunch(dict):\n    __getattr__ = dict.__getitem__\n    __setattr__ = dict.__setitem__\n",
            ),
        ),
        edits=(Edit("configs/example.json", r'"num_epochs": 10', '"num_epochs": 2'),),
    ),
)

RECIPES = (*GENERATIVE, *VISION)
