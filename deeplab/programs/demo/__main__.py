"""`python -m deeplab.demo` is `deeplab demo`."""

if __name__ == '__main__':
    from deeplab import start

    start.run_program('demo')
