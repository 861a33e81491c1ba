"""Records of published data sets, with the flags of TF-Slim (`deeplab download_and_convert_data`)."""

from __future__ import annotations

if __name__ == '__main__':
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by the folder of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('download_and_convert_data')

from deeplab.programs.download_and_convert_data import run

__all__ = ['run']
