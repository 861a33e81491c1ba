"""Training of a network on the records of a split (`deeplab train`)."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by the folder of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['train', *sys.argv[1:]]))

from deeplab.training.network_clone import _build_deeplab
from deeplab.training.train_loop import TrainResult
from deeplab.training.train_run import run

__all__ = ['TrainResult', '_build_deeplab', 'run']
