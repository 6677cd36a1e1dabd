"""Which devices a run uses, and how several processes of one run start and end."""

import contextlib
import functools
import os
from collections.abc import Iterator

import tensorflow as tf
from ml_collections import ConfigDict

from posvit_tf.errors import UserError
from posvit_tf.training import peers
from posvit_tf.training.cluster import TPU_INSTALL, Place, Processes, place
from posvit_tf.training.loop import out_of_memory


@functools.cache
def mirrored(devices: tuple[str, ...]) -> tf.distribute.MirroredStrategy:
    """One strategy a process: the collectives of a second one clash with the first one's keys."""
    return tf.distribute.MirroredStrategy(devices)


def make(config: ConfigDict) -> tf.distribute.Strategy:
    """The tf.distribute strategy that `config.strategy` names; call it before anything of TensorFlow.

    `auto` is multiworker where TF_CONFIG or Slurm names several processes, mirrored where this one has
    several devices, and one otherwise; it never looks for a TPU. Devices are the GPUs, or without any
    the CPU, split into `config.cpu_devices` logical ones.

    Raises:
        UserError: the strategy is not available, or the CPU can no longer be split.
    """
    kind = config.strategy
    if kind in ("one", "tpu") and config.cpu_devices > 1:
        raise UserError(
            f"cpu_devices={config.cpu_devices} has no part in strategy={kind}: use mirrored or auto"
        )
    if kind == "tpu":
        return tpu()
    if place(config).count > 1:
        if config.cpu_devices > 1:
            raise UserError(
                f"cpu_devices={config.cpu_devices} does not go with several processes, each of which "
                "takes one CPU: start more processes, or unset TF_CONFIG"
            )
        return multiworker(place(config))[0]
    if kind == "multiworker":
        raise UserError(
            "strategy=multiworker found no other process: set TF_CONFIG in each, or start them by "
            "srun (README, Several hosts)"
        )
    if config.cpu_devices > 1:
        try:
            tf.config.set_logical_device_configuration(
                tf.config.list_physical_devices("CPU")[0],
                [tf.config.LogicalDeviceConfiguration()] * config.cpu_devices,
            )
        except RuntimeError:
            if len(tf.config.list_logical_devices("CPU")) != config.cpu_devices:
                raise UserError(
                    f"cpu_devices={config.cpu_devices} must be set before TensorFlow starts: "
                    "use a fresh Python process"
                ) from None
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if kind == "mirrored" or (kind == "auto" and len(devices) > 1):
        if config.train.jit_compile and os.environ.get("TF_NUM_INTEROP_THREADS") == "1":
            raise UserError(
                "TF_NUM_INTEROP_THREADS=1 makes devices under XLA wait for each other for ever: unset "
                "it, or set train.jit_compile=false"
            )
        return mirrored(tuple(device.name for device in devices))
    return tf.distribute.get_strategy()


@functools.cache
def multiworker(place: Place) -> tuple[tf.distribute.MultiWorkerMirroredStrategy, peers.Watch]:
    """The strategy of several processes, and what watches over them; returns when all have started.

    Raises:
        UserError: Slurm's variables do not name the hosts, or this process cannot listen.
    """
    try:
        if os.environ.get("TF_CONFIG"):
            resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        else:
            resolver = slurm(place)
        workers = resolver.cluster_spec().job_tasks("worker")
    except (ValueError, RuntimeError) as error:
        raise UserError(f"Slurm does not name the hosts of this step: {error}") from None
    print(
        f"process {place.index} of {place.count}, waits for {', '.join(workers)}; "
        f"at most {peers.START_SECONDS} s",
        flush=True,
    )
    watch = peers.Watch(peers.meet(workers, place), place)
    return tf.distribute.MultiWorkerMirroredStrategy(resolver), watch


def slurm(place: Place) -> tf.distribute.cluster_resolver.ClusterResolver:
    """The processes of a Slurm step, each with the GPUs that Slurm lets it see.

    TensorFlow's own resolver names the hosts; its way of giving out GPUs wants one at least for each
    task, and all of a node's to be visible.
    """
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        gpus_per_node=place.count, gpus_per_task=1, auto_set_gpu=False
    )
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        resolver.cluster_spec(),
        task_type="worker",
        task_id=place.index,
        num_accelerators={"GPU": len(tf.config.list_physical_devices("GPU"))},
        rpc_layer="grpc",
    )


@functools.cache
def tpu() -> tf.distribute.TPUStrategy:
    """The TPU of this machine, or the one that the environment's TPU_NAME names.

    Raises:
        UserError: TensorFlow finds no TPU; a run never falls back to the CPU.
    """
    tried = []
    for name in ("local", os.environ.get("TPU_NAME")):
        if not name:
            continue
        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
            if name != "local":
                tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
            return tf.distribute.TPUStrategy(resolver)
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0].partition(" used by")[0]
            tried.append(f"{name}: {reason}")
    raise UserError(
        f"strategy=tpu, but TensorFlow {tf.__version__} finds no TPU ({'; '.join(tried)}): choose a "
        f"TPU runtime and there `{TPU_INSTALL}`, set TPU_NAME for a TPU over the network, or use "
        "--config.strategy=auto for CPU or GPU"
    )


def processes(config: ConfigDict, strategy: tf.distribute.Strategy) -> Processes:
    """The processes of a run, `strategy` being what `make` gave each."""

    @tf.function(autograph=False)
    def gather(value: tf.Tensor) -> tf.Tensor:
        return strategy.gather(strategy.run(tf.identity, (value,)), axis=0)

    here = place(config)
    return Processes(
        here,
        lambda value: gather(tf.constant([value], tf.int64)).numpy().tolist(),
        multiworker(here)[1].stop if here.count > 1 else None,
    )


@contextlib.contextmanager
def explained(config: ConfigDict) -> Iterator[None]:
    """Inside, the end of another process or of the memory is a UserError."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        raise UserError(peers.LOST.format(*place(config))) from error
    except tf.errors.ResourceExhaustedError as error:
        raise out_of_memory(config) from error
