"""`python -m deeplab.demo` is `deeplab demo`."""

if __name__ == '__main__':
    import pathlib
    import sys

    if __package__ != 'deeplab.demo':  # started as `python deeplab/demo`
        sys.path[0] = str(pathlib.Path(__file__).resolve().parents[2])
    from deeplab import start

    sys.exit(start.main(['demo', *sys.argv[1:]]))
