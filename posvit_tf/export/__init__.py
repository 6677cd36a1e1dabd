"""A trained run as files that serve without this package: `python -m posvit_tf.export WORKDIR`."""
