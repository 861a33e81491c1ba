"""Training of an image classifier with the flags of TF-Slim (`deeplab train_image_classifier`)."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by the folder of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('train_image_classifier')

from deeplab.training.train_run import run

__all__ = ['run']
