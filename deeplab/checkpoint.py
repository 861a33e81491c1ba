"""`python -m deeplab.checkpoint` is `deeplab checkpoint`, whose code is in inspect_checkpoint.py."""

if __name__ == '__main__':
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by that of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['checkpoint', *sys.argv[1:]]))
