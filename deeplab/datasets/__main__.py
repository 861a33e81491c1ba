"""`python -m deeplab.datasets` is `deeplab datasets`, whose code is in programs/datasets.py."""

if __name__ == '__main__':
    import os
    import sys

    if __package__ != 'deeplab.datasets':  # started as `python deeplab/datasets`
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('datasets')
