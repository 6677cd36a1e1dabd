"""The fields of a training. Imports neither Keras nor TensorFlow."""

from posvit_tf.fields import Field

SEED = Field(0, "of the first weights, the order, crops and dropout", least=0, bound=2**31)

RUN = {
    "seed": SEED,
    "strategy": Field(
        "auto",
        "the devices; auto: several processes where TF_CONFIG or Slurm names them, else all GPUs, else one",
        choices=("auto", "one", "mirrored", "multiworker", "tpu"),
    ),
    "cpu_devices": Field(
        1, "logical devices into which the CPU is split, to rehearse several", least=1, bound=65
    ),
    "precision": Field(
        "float32", "in which layers compute", choices=("float32", "mixed_bfloat16", "mixed_float16")
    ),
    "init_from": Field("", "workdir or best.npz whose weights the run starts from"),
    "optimizer": {
        "name": Field(
            "adamw",
            "adamw (decoupled decay), adam or sgd (momentum .9; L2 in the gradient)",
            choices=("adamw", "adam", "sgd"),
        ),
        "learning_rate": Field(1e-3, "the highest, after warm-up", least=0),
        "final_learning_rate": Field(1e-5, "at the end of the cosine", least=0),
        "map_rate": Field(
            1.0, "factor on the steps of what the attention maps come from, decay left out", least=0
        ),
        "warmup_epochs": Field(5.0, "of linear warm-up, a tenth of the run at most", least=0),
        "weight_decay": Field(0.05, "of kernels; biases, norms, positions never decay", least=0),
        "clip_norm": Field(0.0, "longest gradient, over all weights; 0: not clipped", least=0),
        "ema_decay": Field(
            0.0, "of the averaged weights that are then reported; 0: none", least=0, bound=1
        ),
    },
    "train": {
        "epochs": Field(200, "passes over the training images", least=0),
        "steps": Field(None, "updates; wins over epochs where set", int, least=0),
        "accumulate": Field(1, "micro-batches an update", least=1),
        "label_smoothing": Field(
            0.1, "share of the target that is spread over all classes", least=0, bound=1
        ),
        "freeze_attention": Field(False, "whether what the attention maps come from stays fixed"),
        "jit_compile": Field(False, "whether XLA compiles the update"),
    },
    "eval": {"every_epochs": Field(1, "between evaluations on the eval split", least=1)},
    "checkpoint": {
        "every_epochs": Field(1, "between checkpoints", least=1),
        "keep": Field(2, "how many of the newest stay", least=1),
    },
}
