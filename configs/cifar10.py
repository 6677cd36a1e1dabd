"""CIFAR-10 with a small ViT whose attention depends on positions only.

Shows that attention maps made from the position table alone, the same for every image, classify
about as well as the usual ones made from the image. Width, depth and patch are those of the paper's
small ViT; the recipe is the public one of the same shape (Adam with L2, crop and flip, label
smoothing).

    python main.py --config=cifar10                       the paper's size: needs a GPU
    python main.py --config=cifar10:size=nano             a laptop's size
    python main.py --config=cifar10:attention=content     the vanilla ViT, for comparison
    python main.py --config=cifar10:model=resnet18        a baseline that relies on what is near

Arguments
    model      vit, or with their usual recipe (SGD with momentum, L2 5e-4, no label smoothing)
               resnet18 or vgg19
    attention  positional, content (vanilla), free (a matrix a head), uniform (equal frozen maps)
    size       small (7 layers of width 384), or nano (4 of width 96, trained by AdamW with weight
               decay 0.05, decoupled, and one warm-up epoch, which suit runs of a few epochs); of
               resnet18 and vgg19, small is the full width, and nano a quarter of it
    patch      the side of a patch in pixels, 4 as it stands
    recipe     paper (maps start at random: that structure is learned is the point), or best (maps start
               local, no class token but the mean over the patches)

Cost: on one core of a busy 2-core CPU, small about 4 s a step (375 steps an epoch), nano about 4
minutes an epoch (content 5.5).
Expect: nano about .58 test accuracy after 5 epochs (--config.train.epochs=5), measured on a
JPEG-compressed copy of the images; small was not trained to the end by us. The paper's medians of
10 seeds after 200 epochs on all 50,000 images (--config.data.train_split=train
--config.data.eval_split=) are 90.53% (positional) and 90.22% (vanilla).
"""

from ml_collections import ConfigDict, config_dict

from posvit_tf.config import CHOICES, parse_arguments
from posvit_tf.errors import UserError


def get_config(arg: str = "") -> ConfigDict:
    args = parse_arguments(
        arg,
        model=CHOICES["model.name"],
        attention=CHOICES["model.attention"],
        size=("small", "nano"),
        patch=4,
        recipe=("paper", "best"),
    )
    config = ConfigDict(
        dict(
            task="classify",
            seed=0,
            strategy="auto",
            cpu_devices=1,
            precision="float32",
            init_from="",
            data=dict(
                name="cifar10",
                data_dir="",
                image_size=config_dict.placeholder(str),
                train_split="train[:96%]",
                eval_split="train[96%:]",
                test_split="test",
                batch_size=128,
                eval_batch_size=500,
                crop_padding=4,
                flip=True,
                class_weights="",
                autoaugment="",
                cell_size=0,
                permutation_seed=0,
                permute_first=False,
            ),
            model=dict(
                name="vit",
                attention=args.attention,
                positions="learned",
                position_std=config_dict.placeholder(float),
                add_positions=config_dict.placeholder(bool),
                initial_maps="random",
                patch_size=args.patch,
                depth=7,
                heads=12,
                width=384,
                mlp_width=384,
                pool="token",
                dropout=0.0,
                drop_path=0.0,
            ),
            optimizer=dict(
                name="adam",
                learning_rate=1e-3,
                final_learning_rate=1e-5,
                warmup_epochs=5.0,
                weight_decay=5e-5,
                clip_norm=0.0,
                ema_decay=0.0,
            ),
            train=dict(
                epochs=200,
                steps=config_dict.placeholder(int),
                accumulate=1,
                label_smoothing=0.1,
                freeze_attention=False,
                jit_compile=False,
            ),
            eval=dict(every_epochs=1),
            checkpoint=dict(every_epochs=1, keep=2),
        )
    )
    if args.size == "nano":
        config.model.update(depth=4, heads=6, width=96, mlp_width=192)
        config.optimizer.update(name="adamw", weight_decay=0.05, warmup_epochs=1.0)
    if args.recipe == "best":
        config.model.update(initial_maps="local", pool="mean")
    if args.model != "vit":
        if (args.attention, args.patch, args.recipe) != ("positional", 4, "paper"):
            raise UserError(
                f"model={args.model} takes no attention, patch or recipe: leave them out"
            )
        config.model = ConfigDict(dict(name=args.model, width=16 if args.size == "nano" else 64))
        config.optimizer.update(
            name="sgd",
            learning_rate=0.1 if args.model == "resnet18" else 0.05,
            final_learning_rate=0.0,
            weight_decay=5e-4,
        )
        config.train.label_smoothing = 0.0
    return config
