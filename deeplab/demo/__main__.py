"""`python -m deeplab.demo` is `deeplab demo`."""

if __name__ == '__main__':
    import os
    import sys

    if __package__ != 'deeplab.demo':  # started as `python deeplab/demo`
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    sys.exit(start.main(['demo', *sys.argv[1:]]))
