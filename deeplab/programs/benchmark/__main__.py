"""`python -m deeplab.benchmark` is `deeplab benchmark`."""

if __name__ == '__main__':
    from deeplab import start

    start.run_program('benchmark')
