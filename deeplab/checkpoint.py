"""`python -m deeplab.checkpoint` is `deeplab checkpoint`, whose code is in inspect_checkpoint.py."""

if __name__ == '__main__':
    import os
    import sys

    if not __package__:  # started by its path: the folder above deeplab/ takes the place of this file's own
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['checkpoint', *sys.argv[1:]]))
