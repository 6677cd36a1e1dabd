"""The paper's theory as functions: arrays and settings in, plain results out."""
